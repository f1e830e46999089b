"""``RecentSeconds``: how long something has taken lately."""

from __future__ import annotations

from collections import deque

RECENT = 1000
"""Number of the newest durations that quantiles are taken of."""
ENOUGH = 100
"""Number of durations before their 99th percentile says what is usual."""


class RecentSeconds:
    """The newest durations, in seconds."""

    def __init__(self) -> None:
        self._newest: deque[float] = deque(maxlen=RECENT)

    def note(self, seconds: float) -> None:
        """Note a duration."""
        self._newest.append(seconds)

    @property
    def enough(self) -> bool:
        """Whether there are enough of them for a 99th percentile."""
        return len(self._newest) >= ENOUGH

    def quantile(self, share: float) -> float | None:
        """Return the duration at this share of all, in order; ``None`` before the first."""
        if not self._newest:
            return None
        return sorted(self._newest)[round(share * (len(self._newest) - 1))]
