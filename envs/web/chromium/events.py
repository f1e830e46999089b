"""``Events``: unrequested events of tabs (windows, dialogs, downloads, crashes), and the meaning of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error

from ....errors import EnvironmentDiedError, EnvironmentFailedError, EnvironmentTimeoutError, ToolError
from ..browser import MOST_TABS, way_out
from .browser_slot import watched
from .error_messages import GONE, WAITED, reason
from .tab import Tab

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, FileChooser, Page

    from .browser_slot import BrowserSlot
    from .server import Served


class Events:
    """The tabs of one episode, including the current one, and their events.

    Args:
        slot: the episode's slot in a browser.
        sites: the sites that the browser can reach.
    """

    def __init__(self, slot: BrowserSlot, sites: Served) -> None:
        self.slot, self.sites = slot, sites
        self.notices: list[str] = []
        self.violations: list[str] = []
        self.tabs: list[Tab] = []
        self.front = 0
        self._died = ""
        self._opening, self._strays, self._noted = 0, False, 0
        self._opened = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tab(self) -> Tab:
        """The current tab."""
        if not self.tabs:
            raise EnvironmentDiedError(self._died or "all tabs were closed")
        return self.tabs[self.front]

    @property
    def page(self) -> Page:
        """The current page."""
        return self.tab.page

    async def _drop(self, tab: Tab) -> None:
        self._forget(tab)
        await tab.page.close()

    def _forget(self, tab: Tab) -> None:
        if tab in self.tabs:
            number = self.tabs.index(tab)
            self.tabs.remove(tab)
            self.front = max(0, min(self.front - (number < self.front), len(self.tabs) - 1))

    # -- events -----------------------------------------------------------------------------------------------------

    async def _watch(self, page: Page) -> None:
        first = page is self.slot.page
        control, target = (self.slot.control, self.slot.target) if first else await watched(page)
        tab = Tab(page, control, target["targetId"])
        control.on("Page.windowOpen", self._window_opens)
        page.on("download", self._download)
        page.on("filechooser", self._chooser)
        page.on("crash", lambda _: self._crashed())
        page.on("close", lambda _: self._forget(tab))
        self.tabs.append(tab)
        self.front = len(self.tabs) - 1

    def _window_opens(self, event: dict[str, Any]) -> None:
        url = str(event.get("url") or "about:blank")
        if why := way_out(url, self.sites.hosts):
            self.violations.append(f"a window for {url[:100]!r}")
            self.notices.append(f"a window was not opened: {why}")
            self._strays = True
            self._noted += url.startswith("http:")  # the server will also refuse it sooner or later
        else:
            self._opening += 1

    def expect_tab(self) -> None:
        """Expect a tab that the browser opens without announcing it, as after a middle click."""
        self._opening += 1

    def _page(self, page: Page) -> None:
        self._in_background(self._arrived(page))

    async def _arrived(self, page: Page) -> None:
        try:
            with suppress(Error):  # it was closed meanwhile, or the browser died, which the next action will report
                if page.is_closed() or way_out(page.url, self.sites.hosts) or len(self.tabs) >= MOST_TABS:
                    if not page.is_closed():
                        self.notices.append("a window was closed again")
                        await page.close()
                else:
                    await self._watch(page)
        finally:
            self._opening -= 1
            self._opened.set()

    def _dialog(self, dialog: Dialog) -> None:
        kind = dialog.type
        if kind != "beforeunload":
            what = "closed" if kind == "alert" else "dismissed"
            self.notices.append(f"the page said {dialog.message[:300]!r}, and this {kind} was {what}")
        self._in_background(dialog.accept() if kind in ("alert", "beforeunload") else dialog.dismiss())

    def _download(self, download: Download) -> None:
        self.notices.append(f"a download was blocked: {download.suggested_filename[:100]!r}")
        self._in_background(download.cancel())

    def _chooser(self, chooser: FileChooser) -> None:
        self.notices.append("the page asked for a file; there are none, and nothing was chosen")

    def _crashed(self) -> None:
        self._died = "the process of a page crashed"

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        async def quietly() -> None:
            with suppress(Error):
                await work

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- failures ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Check whether the episode can continue.

        Raises:
            InfrastructureError: it cannot.
        """
        if self.slot.episode.failed is not None:
            failed = self.slot.episode.failed
            raise EnvironmentFailedError(f"a site failed: {type(failed).__name__}: {failed}") from failed
        if self._died or not self.slot.chromium.alive:
            raise EnvironmentDiedError(self._died or "Chromium died")

    def _failure(self, error: Error) -> Exception:
        text = str(error)
        if self._died or not self.slot.chromium.alive or (GONE.search(text) and not self.tabs):
            return EnvironmentDiedError(f"{self._died or 'Chromium died'}: {text[:300]}")
        if GONE.search(text):
            one_left = all(not tab.page.is_closed() for tab in self.tabs)
            return ToolError("this tab was closed") if one_left else EnvironmentDiedError(text[:300])
        words = reason(text)
        if words is None and WAITED.search(text):
            return EnvironmentTimeoutError(f"Chromium did not answer in time: {text[:300]}")
        return ToolError(words or text[:200])
