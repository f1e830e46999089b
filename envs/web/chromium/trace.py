"""``Trace``: Playwright's own recording of an episode, for ``playwright show-trace``, used on Chromium's loop."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.async_api import Error

from ....errors import UsageError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

REFUSED = re.compile(r"\bE[A-Z]{3,}: ")
"""Error of Playwright's driver for a file that cannot be written: ``ENOSPC: no space left on device, write``."""
WRITING = 120.0
"""Seconds for writing a trace."""


class Trace:
    """The trace of one episode's context, independent of other episodes.

    Args:
        context: browser context of the episode.
        path: path of the output file.
    """

    def __init__(self, context: BrowserContext, path: Path) -> None:
        self.context, self.path = context, path
        self._named = False
        self._over = False
        self._one_at_a_time = asyncio.Lock()

    async def begin(self) -> None:
        """Start recording."""
        await self.context.tracing.start(screenshots=True, snapshots=True, title=self.path.parent.name)

    async def chapter(self, title: str) -> None:
        """Start a named section; ignore names that Playwright refuses.

        Args:
            title: name of the section.
        """
        if self._over:
            return
        with suppress(Error):
            if self._named:
                await self.context.tracing.group_end()
            await self.context.tracing.group(title)
            self._named = True

    async def end(self) -> str:
        """Write the file; may be called again.

        Returns:
            the reason why the trace was lost, for instance because the browser died; empty otherwise.

        Raises:
            UsageError: the file cannot be written.
        """
        async with self._one_at_a_time:
            if self._over:
                return ""
            self._over = True
            try:
                async with asyncio.timeout(WRITING):
                    await self.context.tracing.stop(path=self.path)
            except (Error, OSError, TimeoutError) as error:
                why = str(error).partition("\n")[0][:300] or type(error).__name__
                if not REFUSED.search(why):
                    return why
                raise UsageError(f"{self.path} cannot be written: {why}; make room, or leave trace out") from None
            return ""
