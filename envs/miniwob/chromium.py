"""A window of this process's Chromium in which a page of the package is open, and nothing else can be opened.

Pages come from the package's folder through Playwright's routes: no server is asked, and nothing goes to a network.
"""

from __future__ import annotations

import contextlib
import mimetypes
from collections.abc import AsyncIterator, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from ...errors import EnvironmentFailedError, InfrastructureError, ToolError
from ...tasks.miniwob.suite import HOST, INSTALL, MiniwobTask, installed
from ...tasks.web.site.http import Request, Response
from ..web.chromium.film import Film
from ..web.chromium.pool import pool
from .looking import FRAMES

if TYPE_CHECKING:
    from playwright.async_api import FloatRect, JSHandle, Page, Route

    from ..web.chromium.seat import Seat

TALL = 210, 700
"""Pixels of a page that are drawn: MiniWoB's, and FlightWoB's."""
AGES = 2_000_000_000
"""Milliseconds after which a page would give up: 23 days. Upstream's 10 s are no time for a model on a slow machine,
and the raw reward does not depend on it. A browser's timers take no more than 2^31."""
PATIENCE = 30_000.0
"""Milliseconds in which a page must load."""
BEGIN = """
async ([seed, mode, ages]) => {
  core.EPISODE_MAX_TIME = ages;
  core.endEpisode(0);
  Math.seedrandom(seed);
  core.setDataMode(mode);
  const later = window.setTimeout, every = window.setInterval, stop = window.clearTimeout;
  const held = new Map(), started = new Map();
  const hold = start => {
    const id = later(() => {}, 2 ** 31 - 1);
    held.set(id, start);
    return id;
  };
  let longest = -1;
  window.setTimeout = (work, ms, ...more) => {
    if (ms > 100) return hold(() => later(work, ms, ...more));
    longest = Math.max(longest, ms || 0);
    return later(work, ms, ...more);
  };
  window.setInterval = (work, ms, ...more) =>
    ms >= 100 ? hold(() => every(work, ms, ...more)) : every(work, ms, ...more);
  window.clearTimeout = window.clearInterval = id => {
    held.delete(id);
    stop(id);
    stop(started.get(id));
  };
  window.turnwiseStart = () => {
    Object.assign(window, {setTimeout: later, setInterval: every});
    for (const [id, start] of held) started.set(id, start());
    held.clear();
  };
  core.startEpisodeReal();
  core.hideDisplay();
  const wait = longest;
  if (wait >= 0) await new Promise(done => later(done, wait));
  return [core.getUtterance(), WOB_TASK_READY];
}
"""
"""What upstream's driver does at ``reset``; the display of time and rewards is hidden, since it shows a clock.

What a page has put off for a moment is done before anybody looks: timers that end at once are called in their order.
Longer ones start after the first look, by ``Window.run``, so that what is seen first does not depend on the machine's
speed. A page may cancel one at any time, by the number that it was given."""


class Nowhere:
    """What the pool's server would answer with: nothing, since every request is answered before it gets there."""

    hosts: frozenset[str] = frozenset({HOST})
    cookies: ClassVar[dict[str, str]] = {}

    def handle(self, request: Request) -> Response:
        """Nothing is there."""
        return Response("", HTTPStatus.NOT_FOUND)


class Window:
    """A page of the package: loaded, and then begun once, as upstream's driver begins it.

    Args:
        path: of the page, below the package's HTML.
        trace: the file of a trace of the episode, if one is wanted.
    """

    def __init__(self, path: str, trace: Path | None = None) -> None:
        self.path, self.trace = path, trace
        self.url = f"http://{HOST}/{path}"
        self.notices: list[str] = []
        self.violations: list[str] = []
        self.utterance = ""
        self._begun = self._runs = False
        self._seat: Seat | None = None

    async def load(self) -> None:
        """Load the page. No seed has a part in that.

        Raises:
            UsageError: the package, Playwright or Chromium is missing.
            EnvironmentFailedError: the page does not load.
        """
        async with pool().works:
            seat = self._seat = await pool().take(Nowhere(), self.trace)
            self.page: Page = seat.page
            self.film = Film(pool(), seat, self.picture)
            async with self._failing("does not load"):
                await seat.context.route("**/*", self._serve)
                await self.page.add_init_script(FRAMES)
                seat.context.on("page", self._refuse_window)
                self.page.on("dialog", self._dismiss)
                await self.page.goto(self.url, timeout=PATIENCE)
                await self.page.wait_for_selector("#sync-task-cover", state="attached", timeout=PATIENCE)
                # The global object of this document. Asked through it, no other document can answer for it.
                self._globals: JSHandle = await self.page.evaluate_handle("() => window")

    async def begin(self, task: MiniwobTask) -> None:
        """Begin the episode.

        Args:
            task: of this page, with a seed.

        Raises:
            EnvironmentFailedError: the page does not begin.
        """
        self._begun = True
        async with self._failing("does not begin"), pool().works:
            asked, ready = await self.page.evaluate(BEGIN, [task.seed, task.mode, AGES])
            if not ready:
                await self.page.wait_for_function("() => WOB_TASK_READY", timeout=PATIENCE)
        self.utterance = said_by(asked)

    async def run(self) -> None:
        """Let the page's clock run, once; called after the first look."""
        if not self._runs:
            self._runs = True
            await self._globals.evaluate("page => page.turnwiseStart()")

    @property
    def alive(self) -> bool:
        """Whether an episode can begin in it, in a browser that is not about to end."""
        return self._seat is not None and self._seat.alive and not self._seat.chromium.retired

    @contextlib.asynccontextmanager
    async def _failing(self, how: str) -> AsyncIterator[None]:
        from playwright.async_api import Error

        try:
            yield
        except BaseException as error:
            await self.close()
            if isinstance(error, Error):
                raise EnvironmentFailedError(f"the page {self.url} {how}: {error}") from error
            raise

    async def verdict(self) -> tuple[bool, float, str]:
        """Whether the page has ended the episode, its raw reward in [-1, 1], and its reason.

        Raises:
            EnvironmentFailedError: the page in which the episode began is gone.
        """
        from playwright.async_api import Error

        script = "() => [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_REWARD_REASON]"
        try:
            done, raw, reason = await self._globals.evaluate(script)
        except Error as error:
            raise EnvironmentFailedError(f"the page {self.url} no longer responds: {error}") from error
        return bool(done), float(raw or 0.0), str(reason or "")

    @property
    def area(self) -> FloatRect:
        """The part of the window in which the page is."""
        flight = "flight/" in self.url
        return {"x": 0, "y": 0, "width": 800 if flight else 160, "height": TALL[flight]}

    async def picture(self) -> bytes:
        """What a person sees of the page, PNG. Nothing is hidden or stopped for it, so nothing changes by it.

        Raises:
            EnvironmentFailedError: there is no picture.
        """
        from playwright.async_api import Error

        try:
            return await self.page.screenshot(animations="allow", caret="initial", clip=self.area, timeout=PATIENCE)
        except Error as error:
            raise EnvironmentFailedError(f"the page {self.url} gives no screenshot: {error}") from error

    async def close(self) -> None:
        """Close the window; may be called again."""
        seat, self._seat = self._seat, None
        if seat is not None and self.trace is None:
            pool().leave_aside(seat)
        elif seat is not None:
            await pool().leave(seat)  # which writes the trace

    # -- where the page may not go --------------------------------------------------------------------------------

    async def _serve(self, route: Route) -> None:
        """Answer a request from the package's folder; the episode's page is given once."""
        request = route.request
        parts = urlsplit(request.url)
        if request.is_navigation_request() and (self._elsewhere(request) or parts.netloc != HOST):
            self.violations.append(f"{request.url[:100]!r} was to be opened")
            self.notices.append(f"{request.url[:100]!r} was not opened: this task is one page")
            await route.fulfill(status=204)  # upon which a browser stays where it is
            return
        folder = installed().resolve()
        file = (folder / unquote(parts.path).lstrip("/")).resolve()
        if parts.netloc != HOST or not file.is_relative_to(folder) or not file.is_file():
            await route.fulfill(status=404, body="")
            return
        await route.fulfill(body=file.read_bytes(), content_type=kind_of(file))

    def _elsewhere(self, request: Any) -> bool:
        from playwright.async_api import Error

        try:
            return self._begun and request.frame.parent_frame is None
        except Error:  # the request of a window that is only opening, whose frame does not exist yet
            return self._begun

    async def _refuse_window(self, page: Page) -> None:
        self.notices.append("a new window was closed: this task is one page")
        with contextlib.suppress(Exception):
            await page.close()

    async def _dismiss(self, dialog: Any) -> None:
        self.notices.append(f"the page said: {str(dialog.message)[:200]!r}")
        with contextlib.suppress(Exception):
            await dialog.accept()


async def told(work: Coroutine[Any, Any, None]) -> None:
    """Do something; what Playwright cannot do is told to the agent."""
    from playwright.async_api import Error

    try:
        async with pool().works:
            await work
    except Error as error:
        raise ToolError(str(error).splitlines()[0][:200]) from None


@contextlib.asynccontextmanager
async def failing(url: str) -> AsyncIterator[None]:
    """While a page is looked at: what Playwright cannot do is a failure of the page."""
    from playwright.async_api import Error

    try:
        yield
    except Error as error:
        raise EnvironmentFailedError(f"the page {url} cannot be looked at: {error}") from error


def kind_of(file: Path) -> str:
    """What a file is, for a browser. Pages do not say that they are in UTF-8: read from a disk, as upstream's driver
    reads them, they are recognised; over HTTP they would be taken for Windows' alphabet."""
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or kind.endswith("javascript") else kind


def said_by(utterance: Any) -> str:
    """What is asked, as upstream's driver tells it: some pages answer with the text and its fields.

    Raises:
        InfrastructureError: neither.
    """
    text = utterance.get("utterance") if isinstance(utterance, dict) else utterance
    if not isinstance(text, str):
        raise InfrastructureError(f"a MiniWoB page asks {utterance!r:.80}, which is not text: {INSTALL}")
    return text
