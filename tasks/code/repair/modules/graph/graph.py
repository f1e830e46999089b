"""Directed graphs with whole weights: search, shortest ways, order and connection."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

Edge = tuple[str, str, int]


class Graph:
    """Made of edges ``(from, to, weight)``; of several between the same two, the lightest counts.

    Raises:
        ValueError: a weight is negative.
    """

    def __init__(self, edges: Iterable[Edge] = (), directed: bool = True) -> None:
        self.directed = directed
        self._next: dict[str, dict[str, int]] = {}
        for one, other, weight in edges:
            self.connect(one, other, weight)

    def connect(self, one: str, other: str, weight: int = 1) -> None:
        """Add an edge, and the nodes that are new."""
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
        """All nodes by name."""
        return sorted(self._next)

    def neighbours(self, node: str) -> list[str]:
        """Where edges lead from a node, by name."""
        return sorted(self._next.get(node, {}))

    def reachable(self, start: str, steps: int = -1) -> list[str]:
        """Nodes in the order of breadth-first search, the start first; at most ``steps`` edges away if not negative."""
        if start not in self._next:
            return []
        distance = {start: 0}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if distance[node] == steps:
                continue
            for neighbour in self.neighbours(node):
                if neighbour not in distance:
                    distance[neighbour] = distance[node] + 1
                    queue.append(neighbour)
        return list(distance)

    def shortest(self, start: str, end: str) -> tuple[int, list[str]] | None:
        """Length and nodes of a lightest way (Dijkstra, 1959); ``None`` where there is none."""
        best = {start: 0}
        before: dict[str, str] = {}
        heap = [(0, start)]
        while heap:
            length, node = heapq.heappop(heap)
            if length > best[node]:
                continue
            if node == end:
                return length, self._way(before, end)
            for neighbour in self.neighbours(node):
                total = length + self._next[node][neighbour]
                if neighbour not in best or total < best[neighbour]:
                    best[neighbour] = total
                    before[neighbour] = node
                    heapq.heappush(heap, (total, neighbour))
        return None

    def _way(self, before: dict[str, str], end: str) -> list[str]:
        way = [end]
        while way[-1] in before:
            way.append(before[way[-1]])
        return way[::-1]

    def order(self) -> list[str] | None:
        """A topological order, the first name first (Kahn, 1962); ``None`` if there is a cycle."""
        incoming = dict.fromkeys(self._next, 0)
        for node in self._next:
            for neighbour in self._next[node]:
                incoming[neighbour] += 1
        ready = [node for node in self._next if incoming[node] == 0]
        heapq.heapify(ready)
        ordered = []
        while ready:
            node = heapq.heappop(ready)
            ordered.append(node)
            for neighbour in self._next[node]:
                incoming[neighbour] -= 1
                if incoming[neighbour] == 0:
                    heapq.heappush(ready, neighbour)
        return ordered if len(ordered) == len(self._next) else None

    def components(self) -> list[list[str]]:
        """Groups of nodes that are connected, whichever way edges point; the largest first, then by name."""
        both = Graph(((one, other, 0) for one in self._next for other in self._next[one]), directed=False)
        groups: list[list[str]] = []
        seen: set[str] = set()
        for node in self.nodes():
            if node not in seen:
                group = sorted(both.reachable(node)) or [node]
                seen.update(group)
                groups.append(group)
        return sorted(groups, key=lambda group: (-len(group), group))
