"""``Loaded``: windows in which a page is loaded already when an episode begins.

Upstream's driver loads a page once and begins one episode after another in it, with whatever the last one left there.
Here every episode has a page of its own. Most of its reset is the loading, in which the seed has no part; so the next
page is loaded while an agent thinks about this one.
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
"""So many windows of one page, and of all pages together, wait for episodes."""
STALE = 30.0
"""Seconds after which a window that nobody wanted makes room for another page's. Before that it stays: with more pages
than room, those that are there are of use, and pages that displaced each other would not be."""


class Loaded:
    """Windows that wait for episodes. All of it is used on Chromium's loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, Window]] = []
        self._making: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def waiting(self) -> list[str]:
        """The pages that wait, by their paths, oldest first."""
        return [window.path for _, window in self._waiting]

    async def take(self, path: str) -> Window:
        """A window in which the page is loaded and nothing has begun.

        Args:
            path: of the page, below the package's HTML.

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
        """Have a page loaded, unless it waits already, or others have the room.

        Args:
            path: of a page in which an episode has begun.
        """
        pool().refill()
        self.weed()
        paths = self.waiting + self._making
        if paths.count(path) >= EACH:
            return
        if len(paths) >= MOST:
            if not self._waiting or time.monotonic() - self._waiting[0][0] < STALE:
                return
            self._aside(self._waiting.pop(0)[1].close())
        self._making.append(path)
        self._aside(self._load(path))

    async def empty(self) -> None:
        """Close what waits."""
        while self._waiting:
            await self._waiting.pop()[1].close()

    async def _load(self, path: str) -> None:
        window = Window(path)
        try:
            with suppress(Exception):  # whoever needs the page will meet the same, and say so
                await window.load()
                self._waiting.append((time.monotonic(), window))
                self.weed()  # its browser may have been retired meanwhile
        finally:
            self._making.remove(path)

    def weed(self) -> None:
        """Let go of what died, and of what keeps a browser from ending."""
        for pair in [pair for pair in self._waiting if not pair[1].alive]:
            self._waiting.remove(pair)
            self._aside(pair[1].close())

    def _aside(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@lru_cache(maxsize=1)
def loaded() -> Loaded:
    """The windows of this process, which end with its Chromium."""
    one = Loaded()
    pool().retiring.append(one.weed)  # also where only other episodes follow
    return one


async def begun(task: MiniwobTask, trace: Path | None) -> Window:
    """A window in which the episode of a task has begun.

    Args:
        task: which page, and its seed.
        trace: the file of a trace of the episode, if one is wanted.

    Raises:
        UsageError: Playwright or Chromium is missing.
        EnvironmentFailedError: the page does not begin.
    """
    if trace is None:
        window = await loaded().take(task.path)
    else:
        window = Window(task.path, trace)  # a trace begins before the page does
        await window.load()
    await window.begin(task)
    return window
