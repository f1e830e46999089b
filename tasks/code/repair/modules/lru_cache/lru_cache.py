"""A bounded cache that evicts the least recently used value, and values that are too old."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any


class LRUCache:
    """A cache of at most ``capacity`` values, whose time advances with calls of ``tick``, not by a clock.

    Args:
        capacity: largest number of values.
        lifetime: number of ticks after which a value is evicted; 0 for never.

    Raises:
        ValueError: the capacity is not positive.
    """

    def __init__(self, capacity: int, lifetime: int = 0) -> None:
        if capacity < 1:
            raise ValueError(f"a cache cannot hold {capacity} values")
        self.capacity = capacity
        self.lifetime = lifetime
        self.now = 0
        self.hits = 0
        self.misses = 0
        self._entries: dict[Hashable, tuple[Any, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the keys, beginning with the one that is evicted next."""
        return iter(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        """Return whether the cache has a key, without counting this as a use."""
        return key in self._entries

    def put(self, key: Hashable, value: Any) -> Hashable | None:
        """Store a value, and return the key that was evicted for it, if any."""
        evicted: Hashable | None = None
        if key in self._entries:
            del self._entries[key]
        elif len(self._entries) >= self.capacity:
            evicted = next(iter(self._entries))
            del self._entries[evicted]
        self._entries[key] = (value, self.now)
        return evicted

    def get(self, key: Hashable, default: Any = None) -> Any:
        """Return a value and mark it as the most recently used; its age does not change."""
        if key not in self._entries:
            self.misses += 1
            return default
        self.hits += 1
        entry = self._entries.pop(key)
        self._entries[key] = entry
        return entry[0]

    def get_or_make(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return a value. If the cache does not have it, make it and store it."""
        if key in self._entries:
            return self.get(key)
        self.misses += 1
        value = make()
        self.put(key, value)
        return value

    def tick(self, ticks: int = 1) -> list[Hashable]:
        """Advance the time, evict values that are too old, and return their keys, the least recently used first."""
        self.now += ticks
        if self.lifetime == 0:
            return []
        old = [key for key, (_, made) in self._entries.items() if self.now - made >= self.lifetime]
        for key in old:
            del self._entries[key]
        return old

    def resize(self, capacity: int) -> int:
        """Change the capacity, and return how many values were evicted for it."""
        if capacity < 1:
            raise ValueError(f"a cache cannot hold {capacity} values")
        dropped = 0
        while len(self._entries) > capacity:
            del self._entries[next(iter(self._entries))]
            dropped += 1
        self.capacity = capacity
        return dropped

    def hit_rate(self) -> float:
        """Return the share of lookups that found a value; 0 before the first lookup."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0
