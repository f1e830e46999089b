"""Durations of the episodes of one environment: how long they take, and how long the slowest has been under way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

RECENT = 1000
"""Number of the newest durations that quantiles are taken of."""


class Durations:
    """Watches leases from their start to their end.

    Args:
        clock: function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._open: dict[str, float] = {}

    def start(self, name: str) -> None:
        """Note that a lease begins."""
        self._open[name] = self._clock()

    def end(self, name: str, *, finished: bool) -> None:
        """Note the end of a lease; only those that ``finished`` count."""
        began = self._open.pop(name)
        if finished:
            self._recent.append(self._clock() - began)

    def metrics(self) -> Mapping[str, float]:
        """Return median and 99th percentile in seconds, and the age of the oldest open lease."""
        now, ordered = self._clock(), sorted(self._recent)
        oldest = max((now - began for began in self._open.values()), default=0.0)
        found = {"seconds_oldest": oldest}
        if ordered:
            last = len(ordered) - 1
            found |= {"seconds_p50": ordered[last // 2], "seconds_p99": ordered[round(0.99 * last)]}
        return found
