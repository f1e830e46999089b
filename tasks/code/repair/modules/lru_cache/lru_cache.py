"""A bounded cache that forgets what was not used for the longest time, or what is too old."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any


class LRUCache:
    """At most ``capacity`` values; time is counted in calls of ``tick``, not by a clock.

    Args:
        capacity: how many values are kept.
        lifetime: ticks after which a value is forgotten; 0 for never.

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
        """Keys, the one that is forgotten next first."""
        return iter(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        """Whether a value is there; asking does not count as a use."""
        return key in self._entries

    def put(self, key: Hashable, value: Any) -> Hashable | None:
        """Keep a value; the key that was forgotten for it, if any."""
        forgotten: Hashable | None = None
        if key in self._entries:
            del self._entries[key]
        elif len(self._entries) >= self.capacity:
            forgotten = next(iter(self._entries))
            del self._entries[forgotten]
        self._entries[key] = (value, self.now)
        return forgotten

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The value, which thereby becomes the one forgotten last; its age stays."""
        if key not in self._entries:
            self.misses += 1
            return default
        self.hits += 1
        entry = self._entries.pop(key)
        self._entries[key] = entry
        return entry[0]

    def get_or_make(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value, made and kept if it is not there."""
        if key in self._entries:
            return self.get(key)
        self.misses += 1
        value = make()
        self.put(key, value)
        return value

    def tick(self, ticks: int = 1) -> list[Hashable]:
        """Let time pass; the keys that became too old, the oldest use first."""
        self.now += ticks
        if self.lifetime == 0:
            return []
        old = [key for key, (_, made) in self._entries.items() if self.now - made >= self.lifetime]
        for key in old:
            del self._entries[key]
        return old

    def resize(self, capacity: int) -> int:
        """Change how many values are kept; how many were forgotten for it."""
        if capacity < 1:
            raise ValueError(f"a cache cannot hold {capacity} values")
        dropped = 0
        while len(self._entries) > capacity:
            del self._entries[next(iter(self._entries))]
            dropped += 1
        self.capacity = capacity
        return dropped

    def hit_rate(self) -> float:
        """Share of lookups that found a value; 0 before the first."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0
