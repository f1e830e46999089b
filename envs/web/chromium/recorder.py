"""``Recorder``: screenshots of an episode's window for human viewers, and Playwright's trace if there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .browser_slot import BrowserSlot
from .loop import LOOP
from .pool import Pool


class Recorder:
    """Observes one episode's window from any event loop, without changing it.

    Args:
        pool: the pool that the slot belongs to.
        slot: the episode's slot in a browser.
        shot: async function that takes a screenshot, PNG.
    """

    def __init__(self, pool: Pool, slot: BrowserSlot, shot: Callable[[], Awaitable[bytes]]) -> None:
        self._pool, self._slot, self._shot = pool, slot, shot

    async def picture(self) -> bytes:
        """Return a screenshot of the window, PNG.

        Raises:
            ToolError: a screenshot is currently impossible.
            InfrastructureError: the browser failed.
        """

        async def taken() -> bytes:
            async with self._pool.works:
                return await self._shot()

        return await LOOP.run(taken())

    async def chapter(self, title: str) -> None:
        """Start a named section of the trace, if there is one.

        Args:
            title: name of the section.
        """
        if self._slot.trace is not None:
            await LOOP.run(self._slot.trace.chapter(title))

    async def end(self) -> str:
        """Write the trace, if there is one; may be called again.

        Returns:
            the reason why a trace was lost; empty otherwise.

        Raises:
            UsageError: the file cannot be written.
        """
        return "" if self._slot.trace is None else await LOOP.run(self._slot.trace.end())
