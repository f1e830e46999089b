"""``PausableClock``: seconds in which something was the case."""

from __future__ import annotations

import time


class PausableClock:
    """Count the seconds in which it runs.

    Args:
        running: whether it runs from the start.
    """

    def __init__(self, *, running: bool = True) -> None:
        self._before = 0.0
        self._since = time.perf_counter() if running else None

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return self._before + (time.perf_counter() - self._since if self._since is not None else 0.0)

    def run(self, running: bool) -> None:
        """Start or stop; nothing happens where it does so already."""
        if running == self.running:
            return
        self._before = self.seconds
        self._since = time.perf_counter() if running else None
