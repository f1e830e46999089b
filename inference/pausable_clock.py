"""``PausableClock``: a stopwatch that can be stopped and started again."""

from __future__ import annotations

import time


class PausableClock:
    """Count the seconds during which it runs.

    Args:
        running: whether it starts immediately.
    """

    def __init__(self, *, running: bool = True) -> None:
        self._before = 0.0
        self._since = time.perf_counter() if running else None

    @property
    def running(self) -> bool:
        """Whether it is running."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """Seconds counted so far."""
        return self._before + (time.perf_counter() - self._since if self._since is not None else 0.0)

    def run(self, running: bool) -> None:
        """Start or stop the clock; does nothing if it is in that state already."""
        if running == self.running:
            return
        self._before = self.seconds
        self._since = time.perf_counter() if running else None
