"""Runners started ahead of time, since a container takes a tenth of a second to start; each is used only once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable

from .background import BackgroundTasks
from .runner_process import RunnerProcess

Make = Callable[[], Awaitable[RunnerProcess]]
AGE = 600.0
"""Seconds after which an unused process is replaced."""


class WarmRunners:
    """Runners of one kind, that of the most recent sandbox.

    Args:
        background: background tasks that make and remove them.
    """

    def __init__(self, background: BackgroundTasks) -> None:
        self.size, self._background = 0, background
        """``size``: number of runners to keep ready; with 0 each is made on demand."""
        self._kind = ""
        self._ready = deque[tuple[float, RunnerProcess]]()
        self._making = 0

    def take(self, kind: str, make: Make) -> RunnerProcess | None:
        """Return an unused process, if one is ready, and make others in the background. It may have died meanwhile.

        Args:
            kind: name of the process's properties; all runners of a kind are alike.
            make: function that makes one of this kind.
        """
        if kind != self._kind:
            self._kind = kind
            self._discard(len(self._ready))
        self._discard(len(self._ready) - self.size)
        found = None
        while found is None and self._ready:
            born, process = self._ready[0]
            if time.monotonic() - born > AGE or process.reader.at_eof():
                self._discard(1)
            else:
                found = process
                self._ready.popleft()
        for _ in range(self.size - len(self._ready) - self._making):
            self._making += 1
            self._background.start(self._refill(kind, make))
        return found

    async def close(self) -> None:
        """Remove unused runners."""
        self.size = 0
        self._discard(len(self._ready))
        await self._background.drain()

    async def _refill(self, kind: str, make: Make) -> None:
        try:
            process = await make()
        finally:
            self._making -= 1
        if kind == self._kind and self.size:
            self._ready.append((time.monotonic(), process))
        else:
            await process.kill()

    def _discard(self, n: int) -> None:
        """End the first ``n`` runners."""
        for _ in range(n):
            self._background.start(self._ready.popleft()[1].kill())
