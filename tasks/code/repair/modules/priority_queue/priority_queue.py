"""A priority queue on a binary heap, with changeable priorities and removable items."""

from __future__ import annotations

from collections.abc import Hashable, Iterator


class PriorityQueue:
    """A queue whose first item has the smallest priority; of equal priorities, the first pushed comes first.

    Each item is in the queue at most once.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._positions: dict[Hashable, int] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, item: Hashable) -> bool:
        return item in self._positions

    def push(self, item: Hashable, priority: int) -> bool:
        """Add an item or change its priority, and return whether the item is new."""
        if item in self._positions:
            self.change(item, priority)
            return False
        self._pushed += 1
        self._heap.append((priority, self._pushed, item))
        self._positions[item] = len(self._heap) - 1
        self._rise(len(self._heap) - 1)
        return True

    def peek(self) -> Hashable | None:
        """Return the first item, or ``None`` if the queue is empty."""
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Hashable:
        """Remove and return the first item.

        Raises:
            IndexError: the queue is empty.
        """
        if not self._heap:
            raise IndexError("the queue is empty")
        first = self._heap[0][2]
        self.remove(first)
        return first

    def priority(self, item: Hashable) -> int:
        """Return the priority of an item.

        Raises:
            KeyError: the item is not in the queue.
        """
        return self._heap[self._positions[item]][0]

    def change(self, item: Hashable, priority: int) -> None:
        """Change the priority of an item, which keeps its position among items of equal priority.

        Raises:
            KeyError: the item is not in the queue.
        """
        position = self._positions[item]
        old, order, _ = self._heap[position]
        self._heap[position] = (priority, order, item)
        if priority < old:
            self._rise(position)
        else:
            self._sink(position)

    def remove(self, item: Hashable) -> None:
        """Remove an item.

        Raises:
            KeyError: the item is not in the queue.
        """
        position = self._positions[item]
        self._swap(position, len(self._heap) - 1)
        self._heap.pop()
        del self._positions[item]
        if position < len(self._heap):
            self._rise(position)
            self._sink(position)

    def drain(self) -> Iterator[Hashable]:
        """Remove all items, and yield them in order."""
        while self._heap:
            yield self.pop()

    def _rise(self, position: int) -> None:
        while position > 0:
            parent = (position - 1) // 2
            if self._heap[parent][:2] <= self._heap[position][:2]:
                return
            self._swap(parent, position)
            position = parent

    def _sink(self, position: int) -> None:
        while True:
            least = position
            for child in (2 * position + 1, 2 * position + 2):
                if child < len(self._heap) and self._heap[child][:2] < self._heap[least][:2]:
                    least = child
            if least == position:
                return
            self._swap(least, position)
            position = least

    def _swap(self, one: int, other: int) -> None:
        heap = self._heap
        heap[one], heap[other] = heap[other], heap[one]
        self._positions[heap[one][2]] = one
        self._positions[heap[other][2]] = other
