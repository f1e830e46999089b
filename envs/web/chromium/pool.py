"""``Pool``: this process's Chromium, and contexts in it that are ready before an episode begins."""

from __future__ import annotations

import asyncio
import atexit
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ....errors import EnvironmentDiedError
from .launch import Chromium, launch
from .loop import through, wait
from .processes import memory
from .server import HEADER, Episode, Served, SiteServer

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import BrowserContext, CDPSession, Page

    from .trace import Trace

EACH_CORE = 2
"""Episodes that act, look or begin at a time, for each core: the others wait, so that what is waited for in a browser,
which has its time limits, is the page and not the other episodes."""
LOOKED_AT = 16
"""The memory of a browser is looked at whenever so many contexts were made."""


@dataclass(frozen=True)
class Settings:
    """How a pool keeps its browser.

    Args:
        ready: contexts that wait for episodes.
        contexts: of one browser, after which another takes its place.
        memory: bytes of a browser's processes together, above which another takes its place.
        width: of the window, in pixels.
        height: of the window, in pixels.
    """

    ready: int = 2
    contexts: int = 400
    memory: int = 6 * 2**30
    width: int = 1280
    height: int = 800


@dataclass(eq=False)
class Seat:
    """One episode's place in a browser.

    Args:
        chromium: which.
        context: the episode's own cookies and tabs.
        page: its first tab.
        control: of the first tab, for what Playwright has no name for.
        target: the first tab and its context, as Chromium calls them.
        key: by which the server knows the episode.
        episode: as the server knows it.
        trace: of the episode, if one is made.
    """

    chromium: Chromium
    context: BrowserContext
    page: Page
    control: CDPSession
    target: dict[str, Any]
    key: str
    episode: Episode
    trace: Trace | None = None

    @property
    def alive(self) -> bool:
        """Whether its browser lives, and its first tab."""
        return self.chromium.alive and not self.page.is_closed()


class Pool:
    """Keeps one Chromium, started when it is first needed, and starts another when that one dies, grows or ages.

    All of it is used on Chromium's loop; ``close`` may be called from anywhere.

    Args:
        settings: how.

    Attributes:
        works: held by whoever has a browser do something.
    """

    def __init__(self, settings: Settings = Settings()) -> None:
        self.settings, self.server = settings, SiteServer()
        self.launched = 0
        self._chromium: Chromium | None = None
        self._all: list[Chromium] = []
        self._ready: list[Seat] = []
        self._traces: set[Trace] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._making, self._closed = 0, False
        self._lock = asyncio.Lock()
        self.works = asyncio.Semaphore(EACH_CORE * (os.cpu_count() or 1))

    # -- seats ------------------------------------------------------------------------------------------------------

    async def take(self, sites: Served, trace: Path | None = None) -> Seat:
        """A seat for an episode.

        Args:
            sites: all that can be reached from it.
            trace: the file of a trace of the episode, if one is wanted.

        Raises:
            UsageError: there is no Chromium on this machine.
            EnvironmentDiedError: none could be started, or it died at once.
        """
        seat: Seat | None = None
        while self._ready and seat is None:
            one = self._ready.pop(0)
            if one.alive:
                seat = one
            else:
                self._aside(self.leave(one))
        seat = seat or await self._made()
        seat.episode.sites = sites
        jar: Any = [
            {"name": "session", "value": token, "url": f"http://{host}/"} for host, token in sites.cookies.items()
        ]
        if jar or trace:
            try:
                await seat.context.add_cookies(jar)
                if trace is not None:
                    await self._trace(seat, trace)
            except Exception as error:
                self._aside(self.leave(seat))
                await seat.chromium.answers()  # one that does not is not asked again
                raise EnvironmentDiedError(f"Chromium died before the episode began: {error}") from error
        return seat

    async def _trace(self, seat: Seat, path: Path) -> None:
        from .trace import Trace  # needs Playwright, which is there if there is a seat

        seat.trace = Trace(seat.context, path)
        await seat.trace.begin()
        self._traces.add(seat.trace)

    async def leave(self, seat: Seat) -> None:
        """Close what was an episode's."""
        if seat.key not in self.server.episodes:
            return
        self.server.leave(seat.key)
        if seat.trace is not None:
            with suppress(Exception):  # whoever wanted to know has ended it before
                await seat.trace.end()
            self._traces.discard(seat.trace)
        with suppress(Exception):  # it may be dead
            await asyncio.wait_for(seat.context.close(), 20)
        chromium = seat.chromium
        chromium.open -= 1
        if not chromium.alive or (chromium.retired and chromium.open <= 0):
            await self._end(chromium)

    def _aside(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def leave_aside(self, seat: Seat) -> None:
        """Close what was an episode's, and wait for nothing."""
        self._aside(self.leave(seat))

    def refill(self) -> None:
        """Have as many seats made as shall be ready."""
        while not self._closed and len(self._ready) + self._making < self.settings.ready:
            self._making += 1
            self._aside(self._prepare())

    async def _prepare(self) -> None:
        try:
            with suppress(Exception):  # whoever needs a seat will meet the same, and say so
                self._ready.append(await self._made())
        finally:
            self._making -= 1

    async def _made(self) -> Seat:
        for again in (True, False):
            chromium = await self._current()
            key, episode = self.server.enter()
            chromium.made, chromium.open = chromium.made + 1, chromium.open + 1
            try:
                context = await asyncio.wait_for(self._context(chromium, key), 60)
                page = await context.new_page()
                control, target = await watched(page)
                await page.aria_snapshot(mode="ai")  # so that Chromium has read Playwright's script when it matters
                return Seat(chromium, context, page, control, target, key, episode)
            except BaseException as error:
                self.server.leave(key)
                chromium.open -= 1
                if not isinstance(error, Exception):
                    raise
                if not await chromium.answers():  # one that does not is not asked again
                    self._aside(self._end(chromium))
                if not again:
                    raise EnvironmentDiedError(f"Chromium made no window: {error}") from error
        raise AssertionError("one of two tries returns or raises")

    async def _context(self, chromium: Chromium, key: str) -> BrowserContext:
        return await chromium.browser.new_context(
            accept_downloads=False,
            extra_http_headers={HEADER: key},
            locale="en-US",
            reduced_motion="reduce",
            service_workers="block",
            timezone_id="UTC",
            viewport={"width": self.settings.width, "height": self.settings.height},
        )

    # -- browsers ---------------------------------------------------------------------------------------------------

    async def _current(self) -> Chromium:
        async with self._lock:
            if self._closed:
                raise EnvironmentDiedError("this process is ending")
            now = self._chromium
            if now is not None and now.alive and not self._aged(now):
                return now
            if now is not None:
                self._retire(now)
            if self.server.port == 0:
                await self.server.start()
            self._chromium = await launch(self.server.port)
            self._all.append(self._chromium)
            self.launched += 1
            return self._chromium

    def _aged(self, chromium: Chromium) -> bool:
        if chromium.made >= self.settings.contexts:
            return True
        return chromium.made % LOOKED_AT == LOOKED_AT - 1 and memory(chromium.pid) > self.settings.memory

    def _retire(self, chromium: Chromium) -> None:
        """Let it end with the last of its episodes."""
        chromium.retired = True
        for seat in [one for one in self._ready if one.chromium is chromium]:
            self._ready.remove(seat)
            self._aside(self.leave(seat))
        if not chromium.alive or chromium.open <= 0:
            self._aside(self._end(chromium))

    async def _end(self, chromium: Chromium) -> None:
        await chromium.close()
        with suppress(ValueError):
            self._all.remove(chromium)

    @property
    def browsers(self) -> list[Chromium]:
        """Those that have not ended."""
        return list(self._all)

    async def close(self) -> None:
        """End everything; there are no seats any more."""
        await through(self._close())

    async def _close(self) -> None:
        self._closed = True
        async with self._lock:
            await asyncio.gather(*(trace.end() for trace in list(self._traces)), return_exceptions=True)
            await asyncio.gather(*(one.close() for one in list(self._all)))
            self._ready.clear()
            await self.server.stop()


async def watched(page: Page) -> tuple[CDPSession, dict[str, Any]]:
    """A session that is told of the windows that a page opens, and what Chromium calls the page and its context."""
    control = await page.context.new_cdp_session(page)
    info: Any = await control.send("Target.getTargetInfo")
    await control.send("Page.enable")
    return control, info["targetInfo"]


@lru_cache(maxsize=1)
def pool() -> Pool:
    """The pool of this process, which ends with it."""
    one = Pool()
    atexit.register(_end, one)
    return one


def _end(one: Pool) -> None:
    with suppress(Exception):  # whatever is left ends with the pipes that this process holds
        wait(one.close(), 15)
