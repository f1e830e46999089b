"""``Window``: an episode's tabs in Chromium and the limits of their navigation, used on Chromium's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from playwright.async_api import Error

from ....errors import (
    EnvironmentDiedError,
    EnvironmentFailedError,
    InfrastructureError,
    ToolError,
)
from ..browser import Wanted, one_more, stay, way_out
from .events import Events
from .look import seen
from .tab import LOADING, Tab

if TYPE_CHECKING:
    from ..page import Page

OPENING = 5.0
"""Seconds from the request for a window until it is open."""
PICTURE = 15_000
"""Milliseconds for a screenshot."""
LOOKS = 4
"""Most attempts to observe a page that changes during the observation."""
ROUNDS = 20
"""Most times in a row that a page may change by itself before it is taken as it is."""


class Window(Events):
    """The tabs of one episode, including the current one.

    Args:
        slot: the episode's slot in a browser.
        sites: the sites that the browser can reach.
    """

    async def begin(self, url: str) -> None:
        """Open the first page.

        Args:
            url: URL of the page.

        Raises:
            InfrastructureError: the page did not load.
        """
        try:
            self.slot.context.set_default_timeout(LOADING)
            await self._watch(self.slot.page)
            self.slot.context.on("dialog", self._dialog)
            self.slot.context.on("page", self._page)
            await self.page.goto(url)
            await self.settle()
        except Error as error:
            raise EnvironmentDiedError(f"the first page did not come: {error}") from error
        self._check()

    # -- acting -----------------------------------------------------------------------------------------------------

    async def act(self, work: Coroutine[Any, Any, Any]) -> None:
        """Await an action, and wait until the tabs have come to rest within the sites.

        Args:
            work: coroutine of the action.

        Raises:
            ToolError: the action is impossible, or leads out of the sites.
            InfrastructureError: the browser or a site failed.
        """
        before = (self.page.url, len(self.tabs))
        failed: Exception | None = None
        try:
            await work
        except (Error, ToolError) as error:
            failed = error if isinstance(error, ToolError) else self._failure(error)
        try:
            await self.settle()
            notices = await self._inside()
        except Error as error:
            raise self._failure(error) from error
        self._check()
        if failed is None and notices and before == (self.page.url, len(self.tabs)):
            raise ToolError("; ".join(notices))
        self.notices += notices
        if failed is not None:
            raise failed

    async def look(self, wanted: Wanted) -> Page:
        """Return the observation of the current tab.

        Args:
            wanted: contents of the observation.

        Raises:
            InfrastructureError: the browser failed.
        """
        for left in reversed(range(LOOKS)):
            self._check()
            try:
                return await seen(self.tabs, self.front, wanted)
            except Error as error:
                if left and self.slot.chromium.alive and not self.page.is_closed():  # the page changed meanwhile
                    await self.settle()
                    continue
                failure = self._failure(error)
                raise (
                    failure
                    if isinstance(failure, InfrastructureError)
                    else EnvironmentFailedError(f"a page cannot be seen: {error}")
                ) from error
        raise AssertionError("the last look returns or raises")

    async def picture(self) -> bytes:
        """Return a PNG screenshot of the current tab. It hides or stops nothing, so that the page does not change.

        Raises:
            ToolError: a screenshot is currently impossible.
            InfrastructureError: the browser failed.
        """
        try:
            return await self.page.screenshot(animations="allow", caret="initial", timeout=PICTURE)
        except Error as error:
            raise self._failure(error) from error

    def goes(self, url: str, what: str) -> None:
        """Refuse a URL that leads out of the sites, and record it.

        Args:
            url: URL as written, absolute or relative.
            what: description of the attempt, such as ``a link to``.

        Raises:
            ToolError: the URL leads out.
        """
        full = url if what == "goto" else urljoin(self.page.url, url.strip())
        stay(what, full, self.sites.hosts, self.violations)

    async def travel(self, by: int) -> None:
        """Go one page back or forward.

        Args:
            by: -1 or 1.

        Raises:
            ToolError: there is no such page.
        """
        tab = self.tab
        history: Any = await tab.control.send("Page.getNavigationHistory")
        entries, to = history["entries"], history["currentIndex"] + by
        own = tab.page is self.slot.page and entries[0]["url"] == "about:blank"  # the agent did not open that page
        if not int(own) <= to < len(entries):
            raise ToolError(f"there is no page to go {'back' if by < 0 else 'forward'} to")
        try:
            await (tab.page.go_back() if by < 0 else tab.page.go_forward())
        except Error as error:
            if "ERR_CACHE_MISS" not in str(error):
                raise
            await tab.rested()
            await tab.page.goto(entries[to]["url"])  # does not send a form again

    async def new_tab(self) -> None:
        """Open an empty tab and switch to it.

        Raises:
            ToolError: too many tabs are open.
        """
        one_more(len(self.tabs))
        self._opening += 1
        await self.slot.context.new_page()

    async def close_tab(self) -> None:
        """Close the current tab.

        Raises:
            ToolError: it is the last one.
        """
        if len(self.tabs) == 1:
            raise ToolError("the last tab cannot be closed")
        await self._drop(self.tab)

    # -- coming to rest within the sites ----------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until the current tab has come to rest.

        Raises:
            EnvironmentTimeoutError: a page did not load.
            Error: the browser has died.
        """
        for _ in range(ROUNDS):
            while self._opening > 0:
                self._opened.clear()
                try:
                    async with asyncio.timeout(OPENING):
                        await self._opened.wait()
                except TimeoutError:
                    self._opening = 0
            tab = self.tab
            if await tab.rested() and self._opening <= 0 and self.tabs and tab is self.tab:
                return

    async def _inside(self) -> list[str]:
        """Bring every tab back to the episode's sites, and return notices for the agent."""
        refused = list(self.slot.episode.refused)
        self.slot.episode.refused.clear()
        known = min(self._noted, len(refused))
        self._noted -= known
        notices = list(dict.fromkeys(refused[known:]))
        self.violations += [f"a page elsewhere: {why}" for why in notices]
        for tab in list(self.tabs):
            url = tab.lost or tab.page.url
            if why := way_out(url, self.sites.hosts):
                self.violations.append(f"a page at {url[:100]!r}")
                notices.append(why)
                await self._back(tab)
            elif url.startswith("https:"):
                notices.append(f"{url[:100]!r} is not answered: the sites are at http://")
                await self._back(tab)
            elif tab.lost:
                raise EnvironmentDiedError(f"{url} was not answered")
        if self._strays:
            self._strays = False
            await self._close_strays()
        return notices

    async def _back(self, tab: Tab) -> None:
        """Return a tab to its last page within the sites; close it if there is none."""
        with suppress(Error):
            await tab.page.go_back(timeout=LOADING)
            await tab.rested()
        if not way_out(tab.page.url, self.sites.hosts) and (tab.page.url != "about:blank" or tab.page is self.page):
            return
        if len(self.tabs) > 1:
            await self._drop(tab)
        else:
            await tab.page.goto("about:blank")

    async def _close_strays(self) -> None:
        """Close windows that were opened for a page elsewhere, which Playwright does not report."""
        control, known = self.slot.chromium.control, {tab.target for tab in self.tabs}
        listed: Any = await control.send("Target.getTargets")
        context = self.slot.target["browserContextId"]
        for one in listed["targetInfos"]:
            if one.get("browserContextId") == context and one["type"] == "page" and one["targetId"] not in known:
                with suppress(Error):
                    await control.send("Target.closeTarget", {"targetId": one["targetId"]})
