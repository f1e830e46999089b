"""A window of this process's Chromium that shows one page of the package and cannot open anything else.

Playwright's routes serve pages from the package's folder: no server is involved, and nothing reaches a network.
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
from ...tasks.web.simulators.http import Request, Response
from ..web.chromium.pool import pool
from ..web.chromium.recorder import Recorder
from .looking import FRAMES

if TYPE_CHECKING:
    from playwright.async_api import FloatRect, JSHandle, Page, Route

    from ..web.chromium.browser_slot import BrowserSlot

TALL = 210, 700
"""Heights of the drawn part of a page, in pixels: MiniWoB's, and FlightWoB's."""
AGES = 2_000_000_000
"""Milliseconds after which a page gives up: 23 days.

Upstream's 10 s are too short for a model on a slow machine, and the raw reward does not depend on it. A browser's
timers take at most 2^31.
"""
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
"""Start an episode like upstream's driver at ``reset``, and hide the display of time and rewards, which shows a clock.

Work that a page has put off for a moment is done before the first look: timers that end at once run in their order.
Longer ones start after the first look, by ``Window.run``, so that the first observation does not depend on the
machine's speed. A page may cancel a timer at any time, by the number that it received.
"""


class Nowhere:
    """A site without pages for the pool's server: the routes answer every request before it reaches the server."""

    hosts: frozenset[str] = frozenset({HOST})
    cookies: ClassVar[dict[str, str]] = {}

    def handle(self, request: Request) -> Response:
        """Return 404 for every request."""
        return Response("", HTTPStatus.NOT_FOUND)


class Window:
    """A page of the package: loaded, and started once, as upstream's driver starts it.

    Args:
        path: path of the page below the package's HTML folder.
        trace: path of a trace of the episode, if wanted.
    """

    def __init__(self, path: str, trace: Path | None = None) -> None:
        self.path, self.trace = path, trace
        self.url = f"http://{HOST}/{path}"
        self.notices: list[str] = []
        self.violations: list[str] = []
        self.utterance = ""
        self._begun = self._runs = False
        self._slot: BrowserSlot | None = None

    async def load(self) -> None:
        """Load the page, which does not depend on a seed.

        Raises:
            UsageError: the package, Playwright or Chromium is missing.
            EnvironmentFailedError: the page does not load.
        """
        async with pool().works:
            slot = self._slot = await pool().take(Nowhere(), self.trace)
            self.page: Page = slot.page
            self.recorder = Recorder(pool(), slot, self.picture)
            async with self._failing("does not load"):
                await slot.context.route("**/*", self._serve)
                await self.page.add_init_script(FRAMES)
                slot.context.on("page", self._refuse_window)
                self.page.on("dialog", self._dismiss)
                await self.page.goto(self.url, timeout=PATIENCE)
                await self.page.wait_for_selector("#sync-task-cover", state="attached", timeout=PATIENCE)
                # The global object of this document. No other document can answer queries that go through it.
                self._globals: JSHandle = await self.page.evaluate_handle("() => window")

    async def begin(self, task: MiniwobTask) -> None:
        """Start the episode.

        Args:
            task: a task of this page, with a seed.

        Raises:
            EnvironmentFailedError: the page does not start its episode.
        """
        self._begun = True
        async with self._failing("does not begin"), pool().works:
            asked, ready = await self.page.evaluate(BEGIN, [task.seed, task.mode, AGES])
            if not ready:
                await self.page.wait_for_function("() => WOB_TASK_READY", timeout=PATIENCE)
        self.utterance = said_by(asked)

    async def run(self) -> None:
        """Start the page's clock, once; called after the first look."""
        if not self._runs:
            self._runs = True
            await self._globals.evaluate("page => page.turnwiseStart()")

    @property
    def alive(self) -> bool:
        """Whether an episode can start in this window, in a browser that is not about to close."""
        return self._slot is not None and self._slot.alive and not self._slot.chromium.retired

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
        """Return whether the page has ended the episode, its raw reward in [-1, 1], and its reason.

        Raises:
            EnvironmentFailedError: the page that started the episode has gone.
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
        """The part of the window that the page occupies, in pixels."""
        flight = "flight/" in self.url
        return {"x": 0, "y": 0, "width": 800 if flight else 160, "height": TALL[flight]}

    async def picture(self) -> bytes:
        """Return a PNG screenshot of the page. It hides or stops nothing, so that the page does not change.

        Raises:
            EnvironmentFailedError: Chromium gives no screenshot.
        """
        from playwright.async_api import Error

        try:
            return await self.page.screenshot(animations="allow", caret="initial", clip=self.area, timeout=PATIENCE)
        except Error as error:
            raise EnvironmentFailedError(f"the page {self.url} gives no screenshot: {error}") from error

    async def close(self) -> None:
        """Close the window; may be called again."""
        slot, self._slot = self._slot, None
        if slot is not None and self.trace is None:
            pool().leave_in_background(slot)
        elif slot is not None:
            await pool().leave(slot)  # writes the trace

    # -- blocked navigation -----------------------------------------------------------------------------------------

    async def _serve(self, route: Route) -> None:
        """Answer a request from the package's folder; serve the episode's page once."""
        request = route.request
        parts = urlsplit(request.url)
        if request.is_navigation_request() and (self._elsewhere(request) or parts.netloc != HOST):
            self.violations.append(f"{request.url[:100]!r} was to be opened")
            self.notices.append(f"{request.url[:100]!r} was not opened: this task is one page")
            await route.fulfill(status=204)  # the browser stays on its page
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
        except Error:  # the request of a window that is just opening, whose frame does not exist yet
            return self._begun

    async def _refuse_window(self, page: Page) -> None:
        self.notices.append("a new window was closed: this task is one page")
        with contextlib.suppress(Exception):
            await page.close()

    async def _dismiss(self, dialog: Any) -> None:
        self.notices.append(f"the page said: {str(dialog.message)[:200]!r}")
        with contextlib.suppress(Exception):
            await dialog.accept()


async def run_action(work: Coroutine[Any, Any, None]) -> None:
    """Await an action; report what Playwright cannot do to the agent."""
    from playwright.async_api import Error

    try:
        async with pool().works:
            await work
    except Error as error:
        raise ToolError(str(error).splitlines()[0][:200]) from None


@contextlib.asynccontextmanager
async def failing(url: str) -> AsyncIterator[None]:
    """Treat Playwright's errors while looking at a page as a failure of the page."""
    from playwright.async_api import Error

    try:
        yield
    except Error as error:
        raise EnvironmentFailedError(f"the page {url} cannot be looked at: {error}") from error


def kind_of(file: Path) -> str:
    """Return the content type of a file.

    Pages do not declare UTF-8. Read from a disk, as by upstream's driver, browsers detect it; over HTTP they would
    assume Windows' encoding.
    """
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or kind.endswith("javascript") else kind


def said_by(utterance: Any) -> str:
    """Return the request as upstream's driver does: some pages answer with the text and its fields.

    Raises:
        InfrastructureError: the answer is neither text nor text with fields.
    """
    text = utterance.get("utterance") if isinstance(utterance, dict) else utterance
    if not isinstance(text, str):
        raise InfrastructureError(f"a MiniWoB page asks {utterance!r:.80}, which is not text: {INSTALL}")
    return text
