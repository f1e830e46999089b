"""Durations of the episodes of one environment: how long they take, and how long the slowest has been under way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

RECENT = 1000
"""Number of the newest durations that quantiles are taken of."""
ENOUGH = 100
"""Number of durations before an open lease can be called slow."""
FAR = 3.0
"""Multiple of the 99th percentile beyond which it is."""
LOOK = 10.0
"""Seconds between two looks for slow leases."""


class Durations:
    """Watches leases from their start to their end.

    Args:
        clock: function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: deque[float] = deque(maxlen=RECENT)
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
            self._recent.append(self._clock() - began)

    def stragglers(self) -> list[tuple[str, float, float]]:
        """Return name and age of the leases that turned out to be slow since the last look, and the 99th percentile.

        They are named once, and waited for: a slow episode is data.
        """
        now = self._clock()
        if now - self._looked < LOOK or len(self._recent) < ENOUGH:
            return []
        self._looked = now
        usual = sorted(self._recent)[round(0.99 * (len(self._recent) - 1))]
        ages = {name: now - began for name, began in self._open.items() if name not in self._named}
        slow = [(name, age, usual) for name, age in ages.items() if age > FAR * usual]
        self._named.update(name for name, _, _ in slow)
        return slow

    def metrics(self) -> Mapping[str, float]:
        """Return median and 99th percentile in seconds, and the age of the oldest open lease."""
        now, ordered = self._clock(), sorted(self._recent)
        oldest = max((now - began for began in self._open.values()), default=0.0)
        found = {"seconds_oldest": oldest}
        if ordered:
            last = len(ordered) - 1
            found |= {"seconds_p50": ordered[last // 2], "seconds_p99": ordered[round(0.99 * last)]}
        return found
