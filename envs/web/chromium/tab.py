"""``Tab``: one tab of Chromium, and whether it has come to rest."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error

from ....errors import EnvironmentTimeoutError

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page, Request

LOADING = 30_000
"""Milliseconds for loading a page. Pages come from this process, so a longer wait means an overloaded machine."""
FRAMES = """() => new Promise(done => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 250); // a tab that is not drawn has no frames
})"""


class Tab:
    """One tab and its activity.

    Args:
        page: Playwright's page.
        control: DevTools session, for functions that Playwright lacks.
        target: DevTools id of the tab.
    """

    def __init__(self, page: Page, control: CDPSession, target: str) -> None:
        self.page, self.control, self.target = page, control, target
        self.failed = ""
        """The URL that last failed to answer."""
        self._coming: Request | None = None
        self._moved = asyncio.Event()
        page.on("request", self._asked)
        page.on("requestfailed", self._missed)
        page.on("framenavigated", self._came)
        page.on("close", lambda _: self._moved.set())
        # Under load, a form's request may be seen after the frame that `rested` waits for; its announcement is not.
        control.on("Page.frameRequestedNavigation", self._announced)

    @property
    def lost(self) -> str:
        """The URL for which the browser shows an error page; empty if it shows a page."""
        return self.failed if self.page.url.startswith("chrome-error:") else ""

    async def rested(self) -> bool:
        """Wait for a page that is loading, and then for a frame and the work that it starts.

        Returns:
            whether nothing has moved since; if not, the tab is not at rest yet.

        Raises:
            EnvironmentTimeoutError: a page did not load.
            Error: the browser has died.
        """
        while self._coming is not None and not self.page.is_closed():
            self._moved.clear()
            try:
                async with asyncio.timeout(LOADING / 1000):
                    await self._moved.wait()
            except TimeoutError:
                raise EnvironmentTimeoutError(f"{self._coming.url} was requested and did not load") from None
        self._moved.clear()
        try:
            await self.page.wait_for_load_state("load", timeout=LOADING)
            await self.page.evaluate(FRAMES)
        except Error as error:
            if self.page.is_closed() or "context was destroyed" in str(error) or "navigat" in str(error):
                return False
            raise
        return self._coming is None and not self._moved.is_set()

    def _asked(self, request: Request) -> None:
        with suppress(Error):  # the frame of a newly opened tab is not known yet
            if request.is_navigation_request() and request.frame == self.page.main_frame:
                self._coming = request

    def _announced(self, event: dict[str, Any]) -> None:
        if event["frameId"] == self.target:  # the main frame has the id of the tab
            self._moved.set()

    def _missed(self, request: Request) -> None:
        if self._coming is not None and request.url == self._coming.url:
            self.failed, self._coming = request.url, None
            self._moved.set()

    def _came(self, frame: Frame) -> None:
        if frame == self.page.main_frame:
            self._coming = None
            self._moved.set()
