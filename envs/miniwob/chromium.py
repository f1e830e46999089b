"""A Chromium for all MiniWoB episodes of a process, and a window of it in which a page of the package is open.

Pages come from the package's folder through Playwright's routes: there is no server, and nothing goes to a network.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import shutil
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ...errors import EnvironmentFailedError, InfrastructureError, UsageError
from ...tasks.miniwob.suite import HOST, INSTALL, MiniwobTask, installed, page_of
from ..web.chromium.loop import wait

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, JSHandle, Page, Route

CHROMIUM = "pip install 'turnwise[miniwob]', and `playwright install chromium` or `apt-get install chromium`"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--mute-audio",
)
WIDTH, HEIGHT = 800, 720
"""Pixels of the window: the largest pages (FlightWoB's) fit in."""
AGES = 2_000_000_000
"""Milliseconds after which a page would give up: 23 days. Upstream's 10 s are no time for a model on a slow machine,
and the raw reward does not depend on it. A browser's timers take no more than 2^31."""
PATIENCE = 30_000.0
"""Milliseconds in which a page must load."""
BEGIN = """
([seed, mode, ages]) => {
  core.EPISODE_MAX_TIME = ages;
  core.endEpisode(0);
  Math.seedrandom(seed);
  core.setDataMode(mode);
  core.startEpisodeReal();
  core.hideDisplay();
  return core.getUtterance();
}
"""
"""What upstream's driver does at ``reset``; the display of time and rewards is hidden, since it shows a clock."""


class Launched:
    """The process's Chromium, started on first use and again if it has died."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._playwright: Any = None
        self._browser: Any = None

    async def context(self) -> BrowserContext:
        """A new profile: nothing is shared between episodes.

        Raises:
            UsageError: Playwright or Chromium is not there.
            EnvironmentFailedError: Chromium does not start.
        """
        async with self._lock:
            if self._browser is None or not self._browser.is_connected():
                await self._launch()
        context: BrowserContext = await self._browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, accept_downloads=False, service_workers="block"
        )
        return context

    async def _launch(self) -> None:
        try:
            from playwright.async_api import Error, async_playwright
        except ModuleNotFoundError:
            raise UsageError(f"MiniWoB needs Playwright: {CHROMIUM}") from None
        if self._playwright is None:
            self._playwright = await async_playwright().start()
            atexit.register(self._stop)
        names = ("chromium", "chromium-browser", "google-chrome")
        path = next((found for found in map(shutil.which, names) if found), None)
        try:
            self._browser = await self._playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        except Error as error:
            if "Executable doesn't exist" in str(error):
                raise UsageError(f"MiniWoB needs Chromium: {CHROMIUM}") from None
            raise EnvironmentFailedError(f"Chromium does not start: {error}") from error

    def _stop(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter is ending: whatever is left ends with it
            wait(self._playwright.stop(), 5)


@lru_cache(maxsize=1)
def launched() -> Launched:
    """The one of this process; to be used on Chromium's loop only."""
    return Launched()


class Window:
    """A page of the package, begun as upstream's driver begins it.

    Args:
        task: which page, and its seed.
    """

    def __init__(self, task: MiniwobTask) -> None:
        self.task = task
        self.url = f"http://{HOST}/{task.path}"
        self.notices: list[str] = []
        self.violations: list[str] = []
        self.utterance = ""
        self._begun = False

    async def open(self) -> None:
        """Open the page and begin the episode.

        Raises:
            UsageError: the package, Playwright or Chromium is missing.
            EnvironmentFailedError: the page does not begin.
        """
        page_of(self.task)
        self._context = await launched().context()
        from playwright.async_api import Error

        try:
            await self._context.route("**/*", self._serve)
            self.page: Page = await self._context.new_page()
            self._context.on("page", self._refuse_window)
            self.page.on("dialog", self._dismiss)
            await self.page.goto(self.url, timeout=PATIENCE)
            await self.page.wait_for_selector("#sync-task-cover", timeout=PATIENCE)
            # The global object of this document. Asked through it, no other document can answer for it.
            self._globals: JSHandle = await self.page.evaluate_handle("() => window")
            self._begun = True
            given = [self.task.seed, self.task.mode, AGES]
            self.utterance = said_by(await self.page.evaluate(BEGIN, given))
            await self.page.wait_for_function("() => WOB_TASK_READY", timeout=PATIENCE)
        except Error as error:
            await self.close()
            raise EnvironmentFailedError(f"the page {self.url} does not begin: {error}") from error

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
            raise EnvironmentFailedError(f"the page {self.url} is gone: {error}") from error
        return bool(done), float(raw or 0.0), str(reason or "")

    async def close(self) -> None:
        """Close the window; may be called again."""
        with contextlib.suppress(Exception):  # a browser that has died has closed it
            await self._context.close()

    # -- where the page may not go --------------------------------------------------------------------------------

    async def _serve(self, route: Route) -> None:
        """Answer a request from the package's folder; the episode's page is given once."""
        request = route.request
        parts = urlsplit(request.url)
        if request.is_navigation_request() and (self._elsewhere(request.frame) or parts.netloc != HOST):
            self.violations.append(f"{request.url[:100]!r} was to be opened")
            self.notices.append(f"{request.url[:100]!r} was not opened: this task is one page")
            await route.fulfill(status=204)  # upon which a browser stays where it is
            return
        folder = installed().resolve()
        file = (folder / unquote(parts.path).lstrip("/")).resolve()
        if parts.netloc != HOST or not file.is_relative_to(folder) or not file.is_file():
            await route.fulfill(status=404, body="")
            return
        await route.fulfill(path=file)

    def _elsewhere(self, frame: Any) -> bool:
        return self._begun and frame.parent_frame is None

    async def _refuse_window(self, page: Page) -> None:
        self.notices.append("a new window was closed: this task is one page")
        with contextlib.suppress(Exception):
            await page.close()

    async def _dismiss(self, dialog: Any) -> None:
        self.notices.append(f"the page said: {str(dialog.message)[:200]!r}")
        with contextlib.suppress(Exception):
            await dialog.accept()


def said_by(utterance: Any) -> str:
    """What is asked, as upstream's driver tells it: some pages answer with the text and its fields.

    Raises:
        InfrastructureError: neither.
    """
    text = utterance.get("utterance") if isinstance(utterance, dict) else utterance
    if not isinstance(text, str):
        raise InfrastructureError(f"a MiniWoB page asks {utterance!r:.80}, which is no text: {INSTALL}")
    return text
