"""``Pool``: this process's Chromium, and contexts in it that are ready before an episode starts."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from ....errors import EnvironmentDiedError
from ....logs import event
from .browser_slot import BrowserSlot, context_of, open_slot
from .launch import Chromium, launch
from .loop import LOOP
from .processes import memory
from .server import Served, SiteServer

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import BrowserContext

    from .trace import Trace

LOG = logging.getLogger(__name__)
T = TypeVar("T")

EACH_CORE = 2
"""Episodes per core that act, look or start at the same time; the others wait.

Time limits of the browser then measure the page and not the other episodes.
"""
LOOKED_AT = 16
"""Number of contexts after which the browser's memory is measured again."""
MAKING = 60.0
"""Seconds for creating a window."""
LAUNCHING = 100.0
"""Seconds for starting a browser and its driver; Playwright itself waits forever for a driver that does not answer."""


@dataclass(frozen=True)
class Settings:
    """Settings of a pool.

    Args:
        ready: number of contexts that wait for episodes.
        contexts: number of contexts after which another browser replaces the current one.
        memory: size of a browser's processes together, in bytes, above which another browser replaces it.
        width: width of the window, in pixels.
        height: height of the window, in pixels.
    """

    ready: int = 2
    contexts: int = 400
    memory: int = 6 * 2**30
    width: int = 1280
    height: int = 800


class Pool:
    """Keeps one Chromium, started on first use, and starts another when that one dies, grows or ages.

    All methods run on Chromium's loop; ``close`` may be called from anywhere.

    Args:
        settings: settings of the pool.

    Attributes:
        works: semaphore to hold while a browser works.
        retiring: callbacks that run when a browser retires, and that close spare windows which would keep it open.
    """

    def __init__(self, settings: Settings = Settings()) -> None:
        self.settings, self.server = settings, SiteServer()
        self.launched = 0
        self.retiring: list[Callable[[], None]] = []
        self._chromium: Chromium | None = None
        self._all: list[Chromium] = []
        self._ready: list[BrowserSlot] = []
        self._traces: set[Trace] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._making, self._closed = 0, False
        self._launching: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.works = asyncio.Semaphore(EACH_CORE * (os.cpu_count() or 1))

    # -- slots ------------------------------------------------------------------------------------------------------

    async def take(self, sites: Served, trace: Path | None = None) -> BrowserSlot:
        """Return a slot for an episode.

        Args:
            sites: the sites that the browser can reach.
            trace: path of a trace of the episode, if wanted.

        Raises:
            UsageError: Chromium is not installed on this machine.
            EnvironmentDiedError: no browser started, or it died at once.
        """
        slot: BrowserSlot | None = None
        while self._ready and slot is None:
            one = self._ready.pop(0)
            if one.alive:
                slot = one
            else:
                self._in_background(self.leave(one))
        slot = slot or await self._made()
        try:
            await self._furnish(slot, sites, trace)
        except BaseException as error:
            self._in_background(self.leave(slot))
            if not isinstance(error, Exception):
                raise
            await slot.chromium.answers()  # a browser without an answer is not used again
            raise EnvironmentDiedError(f"Chromium died before the episode began: {error}") from error
        return slot

    async def _furnish(self, slot: BrowserSlot, sites: Served, trace: Path | None) -> None:
        slot.episode.sites = sites
        jar: Any = [
            {"name": "session", "value": token, "url": f"http://{host}/"} for host, token in sites.cookies.items()
        ]
        if jar:
            await slot.context.add_cookies(jar)
        if trace is not None:
            await self._trace(slot, trace)

    async def _trace(self, slot: BrowserSlot, path: Path) -> None:
        from .trace import Trace  # needs Playwright, which is installed if there is a slot

        slot.trace = Trace(slot.context, path)
        await slot.trace.begin()
        self._traces.add(slot.trace)

    async def leave(self, slot: BrowserSlot) -> None:
        """Close the tabs and the context of an episode."""
        if slot.key not in self.server.episodes:
            return
        self.server.leave(slot.key)
        await asyncio.shield(self._in_background(self._emptied(slot)))  # continues even if the caller is cancelled

    async def _emptied(self, slot: BrowserSlot) -> None:
        if slot.trace is not None:
            with suppress(Exception):  # a caller who wants its result has ended it before
                await slot.trace.end()
            self._traces.discard(slot.trace)
        with suppress(Exception):  # it may be dead
            async with asyncio.timeout(20):
                await slot.context.close()
        await self._fewer(slot.chromium)

    async def _fewer(self, chromium: Chromium) -> None:
        """Count a closed context, and end a retired browser with its last one."""
        chromium.open -= 1
        if not chromium.alive or (chromium.retired and chromium.open <= 0):
            await self._end(chromium)

    def _in_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def leave_in_background(self, slot: BrowserSlot) -> None:
        """Close the tabs and the context of an episode in the background."""
        self._in_background(self.leave(slot))

    def refill(self) -> None:
        """Prepare slots in the background until the configured number is ready."""
        while not self._closed and len(self._ready) + self._making < self.settings.ready:
            self._making += 1
            self._in_background(self._prepare())

    async def _prepare(self) -> None:
        try:
            with suppress(Exception):  # an episode that needs a slot will meet and report the same error
                slot = await self._made()
                if slot.chromium.retired:  # it retired meanwhile, and would wait in vain
                    await self.leave(slot)
                else:
                    self._ready.append(slot)
        finally:
            self._making -= 1

    async def _made(self) -> BrowserSlot:
        for again in (True, False):
            chromium = await self._current()
            try:
                return await self._open_slot(chromium)
            except Exception as error:
                if not await chromium.answers():
                    self._in_background(self._end(chromium))
                if not again:
                    raise EnvironmentDiedError(f"Chromium made no window: {error}") from error
        raise AssertionError("one of two tries returns or raises")

    async def _open_slot(self, chromium: Chromium) -> BrowserSlot:
        key, episode = self.server.enter()
        chromium.made, chromium.open = chromium.made + 1, chromium.open + 1
        coming = self._in_background(context_of(chromium, key, self.settings.width, self.settings.height))
        try:
            async with asyncio.timeout(MAKING):
                # Chromium creates the context even if this is cancelled; without a reference, it would never be closed.
                context = await asyncio.shield(coming)
                return await open_slot(chromium, context, key, episode)
        except BaseException:
            self.server.leave(key)
            self._in_background(self._unmade(chromium, coming))
            raise

    async def _unmade(self, chromium: Chromium, coming: asyncio.Task[BrowserContext]) -> None:
        """Close a context that did not become a slot, also if it is created only later."""
        with suppress(Exception):  # it may never come
            async with asyncio.timeout(MAKING):
                await (await coming).close()
        await self._fewer(chromium)

    # -- browsers ---------------------------------------------------------------------------------------------------

    async def _current(self) -> Chromium:
        while True:
            if self._closed:
                raise EnvironmentDiedError("this process is ending")
            now = self._chromium
            if now is not None and now.alive and not self._aged(now):
                return now
            if now is not None:
                self._retire(now)
            if self._launching is None:
                self._launching = self._in_background(self._launch())
            await asyncio.shield(self._launching)  # the caller may be cancelled while others wait for the same start

    async def _launch(self) -> None:
        try:
            async with self._lock:
                if self._closed:
                    return
                if self.server.port == 0:
                    await self.server.start()
                try:
                    async with asyncio.timeout(LAUNCHING):
                        self._chromium = await launch(self.server.port)
                except TimeoutError:  # all episodes wait for this one start
                    raise EnvironmentDiedError(f"Chromium did not start within {LAUNCHING:g} s") from None
                self._all.append(self._chromium)
                self.launched += 1
                if self.launched > 1:
                    event(LOG, "restart", "started another Chromium in place of one that died, grew or aged")
        finally:
            self._launching = None

    def _aged(self, chromium: Chromium) -> bool:
        if chromium.made >= max(1, self.settings.contexts):
            return True
        return chromium.made % LOOKED_AT == LOOKED_AT - 1 and memory(chromium.pid) > self.settings.memory

    def _retire(self, chromium: Chromium) -> None:
        """Let a browser end with the last of its episodes."""
        chromium.retired = True
        for tell in self.retiring:
            tell()
        for slot in [one for one in self._ready if one.chromium is chromium]:
            self._ready.remove(slot)
            self._in_background(self.leave(slot))
        if not chromium.alive or chromium.open <= 0:
            self._in_background(self._end(chromium))

    async def _end(self, chromium: Chromium) -> None:
        await chromium.close()
        with suppress(ValueError):
            self._all.remove(chromium)

    @property
    def browsers(self) -> list[Chromium]:
        """The browsers that have not ended."""
        return list(self._all)

    async def close(self) -> None:
        """Close all browsers; the pool has no slots after that."""
        await LOOP.run(self._close())

    async def _close(self) -> None:
        self._closed = True
        async with self._lock:
            await asyncio.gather(*(trace.end() for trace in list(self._traces)), return_exceptions=True)
            await asyncio.gather(*(one.close() for one in list(self._all)))
            self._ready.clear()
            await self.server.stop()


@lru_cache(maxsize=1)
def pool() -> Pool:
    """Return the pool of this process, which ends with it."""
    one = Pool()
    atexit.register(_end, one)
    return one


def _end(one: Pool) -> None:
    with suppress(Exception):  # the rest ends with the pipes that this process holds
        LOOP.wait(one.close(), 15)
