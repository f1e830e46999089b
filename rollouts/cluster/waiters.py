"""``Waiters``: coroutines of one event loop that wait until something changes."""

from __future__ import annotations

import asyncio
from collections import deque


class Waiters:
    """Coroutines that wait, first come, first woken.

    Unlike a condition, it has no lock: what one coroutine does between two awaits, no other one sees half done.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait to be woken."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(woken)
        try:
            await woken
        except asyncio.CancelledError:
            if not woken.cancelled():  # woken and canceled at once: another one must see the change
                self.wake()
            elif woken in self._waiting:
                self._waiting.remove(woken)
            raise

    def wake(self, *, every: bool = False) -> None:
        """Wake the one that has waited longest, or every one."""
        while self._waiting:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                if not every:
                    return
