"""Durations of the episodes of one environment: how long they take, and how long the slowest has been under way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ..recent import RecentSeconds

FAR = 3.0
"""Multiple of the 99th percentile beyond which an open lease is slow."""
LOOK = 10.0
"""Seconds between two looks for slow leases."""


class Durations:
    """Watches leases from their start to their end.

    Args:
        clock: function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent = RecentSeconds()
        self._open: dict[str, float] = {}
        self._named: set[str] = set()
        self._looked = clock()

    def start(self, name: str) -> None:
        """Note that a lease begins."""
        self._open[name] = self._clock()

    def end(self, name: str, *, finished: bool) -> None:
        """Note the end of a lease; only those that ``finished`` count."""
        began = self._open.pop(name)
        self._named.discard(name)
        if finished:
            self._recent.note(self._clock() - began)

    def stragglers(self) -> list[tuple[str, float, float]]:
        """Return name and age of the leases that turned out to be slow since the last look, and the 99th percentile.

        They are named once, and waited for: a slow episode is data.
        """
        now = self._clock()
        if now - self._looked < LOOK or not self._recent.enough:
            return []
        self._looked, usual = now, self._recent.quantile(0.99)
        assert usual is not None, "there are enough"
        ages = {name: now - began for name, began in self._open.items() if name not in self._named}
        slow = [(name, age, usual) for name, age in ages.items() if age > FAR * usual]
        self._named.update(name for name, _, _ in slow)
        return slow

    def metrics(self) -> Mapping[str, float]:
        """Return median and 99th percentile in seconds, and the age of the oldest open lease."""
        now = self._clock()
        found = {"seconds_oldest": max((now - began for began in self._open.values()), default=0.0)}
        for name, share in (("seconds_p50", 0.5), ("seconds_p99", 0.99)):
            if (seconds := self._recent.quantile(share)) is not None:
                found[name] = seconds
        return found
