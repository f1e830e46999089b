"""A priority queue on a binary heap in which priorities can be changed and entries removed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator


class PriorityQueue:
    """The smallest priority comes first; of equal ones, what was pushed first.

    Every item is in the queue at most once.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._places: dict[Hashable, int] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, item: Hashable) -> bool:
        return item in self._places

    def push(self, item: Hashable, priority: int) -> bool:
        """Add an item, or change its priority; whether it is new."""
        if item in self._places:
            self.change(item, priority)
            return False
        self._pushed += 1
        self._heap.append((priority, self._pushed, item))
        self._places[item] = len(self._heap) - 1
        self._rise(len(self._heap) - 1)
        return True

    def peek(self) -> Hashable | None:
        """The first item; ``None`` if there is none."""
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Hashable:
        """Take the first item out.

        Raises:
            IndexError: the queue is empty.
        """
        if not self._heap:
            raise IndexError("the queue is empty")
        first = self._heap[0][2]
        self.remove(first)
        return first

    def priority(self, item: Hashable) -> int:
        """An item's priority.

        Raises:
            KeyError: it is not in the queue.
        """
        return self._heap[self._places[item]][0]

    def change(self, item: Hashable, priority: int) -> None:
        """Give an item another priority; it keeps its turn among equals.

        Raises:
            KeyError: it is not in the queue.
        """
        place = self._places[item]
        old, order, _ = self._heap[place]
        self._heap[place] = (priority, order, item)
        if priority < old:
            self._rise(place)
        else:
            self._sink(place)

    def remove(self, item: Hashable) -> None:
        """Take an item out, wherever it stands.

        Raises:
            KeyError: it is not in the queue.
        """
        place = self._places[item]
        self._swap(place, len(self._heap) - 1)
        self._heap.pop()
        del self._places[item]
        if place < len(self._heap):
            self._rise(place)
            self._sink(place)

    def drain(self) -> Iterator[Hashable]:
        """Take all items out, in order."""
        while self._heap:
            yield self.pop()

    def _rise(self, place: int) -> None:
        while place > 0:
            parent = (place - 1) // 2
            if self._heap[parent][:2] <= self._heap[place][:2]:
                return
            self._swap(parent, place)
            place = parent

    def _sink(self, place: int) -> None:
        while True:
            least = place
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(self._heap) and self._heap[child][:2] < self._heap[least][:2]:
                    least = child
            if least == place:
                return
            self._swap(least, place)
            place = least

    def _swap(self, one: int, other: int) -> None:
        heap = self._heap
        heap[one], heap[other] = heap[other], heap[one]
        self._places[heap[one][2]] = one
        self._places[heap[other][2]] = other
