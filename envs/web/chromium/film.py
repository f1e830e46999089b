"""``Film``: what is kept of an episode for people: pictures of its window, and Playwright's trace if one is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .loop import LOOP
from .pool import Pool
from .seat import Seat


class Film:
    """Looks at one episode's window, from any event loop, and changes nothing by that.

    Args:
        pool: where its browser is from.
        seat: its place there.
        shot: takes a picture, PNG.
    """

    def __init__(self, pool: Pool, seat: Seat, shot: Callable[[], Awaitable[bytes]]) -> None:
        self._pool, self._seat, self._shot = pool, seat, shot

    async def picture(self) -> bytes:
        """What a person sees now, PNG.

        Raises:
            ToolError: there is no picture now.
            InfrastructureError: the browser failed.
        """

        async def taken() -> bytes:
            async with self._pool.works:
                return await self._shot()

        return await LOOP.run(taken())

    async def chapter(self, title: str) -> None:
        """Name what happens next, in the trace if one is made.

        Args:
            title: the name.
        """
        if self._seat.trace is not None:
            await LOOP.run(self._seat.trace.chapter(title))

    async def end(self) -> str:
        """Write the trace, if one is made; may be called again.

        Returns:
            why there is none, if it was lost; otherwise nothing.

        Raises:
            UsageError: the file cannot be written.
        """
        return "" if self._seat.trace is None else await LOOP.run(self._seat.trace.end())
