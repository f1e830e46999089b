"""Circuit breaker: a node or worker on which episodes only fail rests, while the same works elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

FAILURES = 3
"""Number of failures in a row, without a success, after which a place rests."""
REST = 30.0
"""Seconds of the first rest; each further one is twice as long."""
LONGEST_REST = 600.0


@dataclass(slots=True)
class _Place:
    failed: int = 0
    since: int = 0
    worked: int = -1
    until: float = 0.0
    rest: float = 0.0


class Circuit:
    """Decides which places rest. After its rest a place is on trial: the next end there decides.

    A place rests only if another one has worked since its first failure in the row. So a fault that all places share,
    such as a policy server that is down, closes none of them, and at least one always plays.

    Args:
        clock: function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._places: dict[str, _Place] = {}
        self._ends = 0

    def note(self, name: str, *, worked: bool) -> float:
        """Note how something ended at a place; return the seconds for which the place rests from now on, mostly 0."""
        place = self._places.setdefault(name, _Place())
        self._ends += 1
        if worked:
            place.failed, place.rest, place.until, place.worked = 0, 0.0, 0.0, self._ends
            return 0.0
        place.failed += 1
        if place.failed == 1:
            place.since = self._ends
        others = any(other.worked > place.since for each, other in self._places.items() if each != name)
        enough = place.failed >= FAILURES or self.on_trial(name)
        if not (enough and others) or self.rests(name):
            return 0.0
        place.rest = min(2 * place.rest or REST, LONGEST_REST)
        place.until = self._clock() + place.rest
        place.since, place.failed = self._ends, 1  # others must work again before the next rest
        return place.rest

    def rests(self, name: str) -> bool:
        """Whether nothing may start at a place now."""
        place = self._places.get(name)
        return place is not None and place.until > self._clock()

    def on_trial(self, name: str) -> bool:
        """Whether a place has rested, and nothing has worked there since."""
        place = self._places.get(name)
        return place is not None and place.rest > 0 and not self.rests(name)

    @property
    def resting(self) -> int:
        """Number of places that rest now."""
        return sum(map(self.rests, self._places))

    def forget(self, name: str) -> None:
        """Forget a place that no longer exists."""
        self._places.pop(name, None)
