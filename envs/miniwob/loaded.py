"""``Loaded``: windows that have loaded a page before an episode starts.

Upstream's driver loads a page once and starts one episode after another in it, with whatever the last one left there.
Here every episode has a page of its own. Loading takes most of a reset and does not depend on the seed, so the next
page loads while an agent thinks about the current one.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..web.chromium.pool import pool
from .chromium import Window

if TYPE_CHECKING:
    from pathlib import Path

    from ...tasks.miniwob.suite import MiniwobTask

EACH, MOST = 2, 8
"""Most windows that wait for episodes: of one page, and of all pages together."""
STALE = 30.0
"""Seconds after which an unused window makes room for another page's.

It stays until then: with more pages than room, the waiting windows are useful only if they do not keep displacing each
other.
"""


class Loaded:
    """Windows that wait for episodes. All methods run on Chromium's loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, Window]] = []
        self._making: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def waiting(self) -> list[str]:
        """Paths of the waiting pages, oldest first."""
        return [window.path for _, window in self._waiting]

    async def take(self, path: str) -> Window:
        """Return a window that has loaded the page but not started an episode.

        Args:
            path: path of the page below the package's HTML folder.

        Raises:
            UsageError: Playwright or Chromium is missing.
            EnvironmentFailedError: the page does not load.
        """
        self.weed()
        found = next((pair for pair in self._waiting if pair[1].path == path), None)
        if found is not None:
            self._waiting.remove(found)
            return found[1]
        window = Window(path)
        await window.load()
        return window

    def refill(self, path: str) -> None:
        """Load a page in the background, unless enough windows of it wait already or others take the room.

        Args:
            path: path of a page that has just started an episode.
        """
        pool().refill()
        self.weed()
        paths = self.waiting + self._making
        if paths.count(path) >= EACH:
            return
        if len(paths) >= MOST:
            if not self._waiting or time.monotonic() - self._waiting[0][0] < STALE:
                return
            self._in_background(self._waiting.pop(0)[1].close())
        self._making.append(path)
        self._in_background(self._load(path))

    async def empty(self) -> None:
        """Close all waiting windows."""
        while self._waiting:
            await self._waiting.pop()[1].close()

    async def _load(self, path: str) -> None:
        window = Window(path)
        try:
            with suppress(Exception):  # an episode that needs the page will meet and report the same error
                await window.load()
                self._waiting.append((time.monotonic(), window))
                self.weed()  # its browser may have retired meanwhile
        finally:
            self._making.remove(path)

    def weed(self) -> None:
        """Close windows that died, or that keep a retired browser open."""
        for pair in [pair for pair in self._waiting if not pair[1].alive]:
            self._waiting.remove(pair)
            self._in_background(pair[1].close())

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@lru_cache(maxsize=1)
def loaded() -> Loaded:
    """Return the windows of this process, which close with its Chromium."""
    one = Loaded()
    pool().retiring.append(one.weed)  # also if only other episodes follow
    return one


async def window_for(task: MiniwobTask, trace: Path | None) -> Window:
    """Return a window that has started the episode of a task.

    Args:
        task: the task, with its page and seed.
        trace: path of a trace of the episode, if wanted.

    Raises:
        UsageError: Playwright or Chromium is missing.
        EnvironmentFailedError: the page does not start its episode.
    """
    if trace is None:
        window = await loaded().take(task.path)
    else:
        window = Window(task.path, trace)  # the trace starts before the page
        await window.load()
    await window.begin(task)
    return window
