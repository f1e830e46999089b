"""Graphs with integer weights: search, shortest paths, topological order and components."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

Edge = tuple[str, str, int]


class Graph:
    """A graph of edges ``(from, to, weight)``; of several edges between two nodes, the lightest counts.

    Raises:
        ValueError: a weight is negative.
    """

    def __init__(self, edges: Iterable[Edge] = (), directed: bool = True) -> None:
        self.directed = directed
        self._next: dict[str, dict[str, int]] = {}
        for one, other, weight in edges:
            self.connect(one, other, weight)

    def connect(self, one: str, other: str, weight: int = 1) -> None:
        """Add an edge, and its nodes if they are new."""
        if weight < 0:
            raise ValueError(f"the weight {weight} is negative")
        for node in (one, other):
            self._next.setdefault(node, {})
        pairs = [(one, other)] if self.directed else [(one, other), (other, one)]
        for start, end in pairs:
            known = self._next[start].get(end)
            if known is None or weight < known:
                self._next[start][end] = weight

    def nodes(self) -> list[str]:
        """Return all nodes, sorted by name."""
        return sorted(self._next)

    def neighbors(self, node: str) -> list[str]:
        """Return the nodes that edges from a node lead to, sorted by name."""
        return sorted(self._next.get(node, {}))

    def reachable(self, start: str, steps: int = -1) -> list[str]:
        """Return nodes in the order of breadth-first search, beginning with the start.

        If ``steps`` is not negative, return only nodes that are at most that many edges away.
        """
        if start not in self._next:
            return []
        distance = {start: 0}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if distance[node] == steps:
                continue
            for neighbor in self.neighbors(node):
                if neighbor not in distance:
                    distance[neighbor] = distance[node] + 1
                    queue.append(neighbor)
        return list(distance)

    def shortest(self, start: str, end: str) -> tuple[int, list[str]] | None:
        """Return the length and the nodes of a shortest path (Dijkstra, 1959), or ``None`` if there is no path."""
        best = {start: 0}
        before: dict[str, str] = {}
        heap = [(0, start)]
        while heap:
            length, node = heapq.heappop(heap)
            if length > best[node]:
                continue
            if node == end:
                return length, self._path(before, end)
            for neighbor in self.neighbors(node):
                total = length + self._next[node][neighbor]
                if neighbor not in best or total < best[neighbor]:
                    best[neighbor] = total
                    before[neighbor] = node
                    heapq.heappush(heap, (total, neighbor))
        return None

    def _path(self, before: dict[str, str], end: str) -> list[str]:
        path = [end]
        while path[-1] in before:
            path.append(before[path[-1]])
        return path[::-1]

    def order(self) -> list[str] | None:
        """Return a topological order (Kahn, 1962), or ``None`` if there is a cycle.

        Where several nodes could come next, the first by name does.
        """
        incoming = dict.fromkeys(self._next, 0)
        for node in self._next:
            for neighbor in self._next[node]:
                incoming[neighbor] += 1
        ready = [node for node in self._next if incoming[node] == 0]
        heapq.heapify(ready)
        ordered = []
        while ready:
            node = heapq.heappop(ready)
            ordered.append(node)
            for neighbor in self._next[node]:
                incoming[neighbor] -= 1
                if incoming[neighbor] == 0:
                    heapq.heappush(ready, neighbor)
        return ordered if len(ordered) == len(self._next) else None

    def components(self) -> list[list[str]]:
        """Return the groups of nodes that edges connect in either direction, the largest first, then by name."""
        both = Graph(((one, other, 0) for one in self._next for other in self._next[one]), directed=False)
        groups: list[list[str]] = []
        seen: set[str] = set()
        for node in self.nodes():
            if node not in seen:
                group = sorted(both.reachable(node)) or [node]
                seen.update(group)
                groups.append(group)
        return sorted(groups, key=lambda group: (-len(group), group))
