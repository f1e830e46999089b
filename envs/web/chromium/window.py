"""``Window``: an episode's tabs in Chromium, and where they may be. Lives on Chromium's loop."""

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
"""Seconds that a window may take from being asked for to being there."""
PICTURE = 15_000
"""Milliseconds that a picture may take."""
LOOKS = 4
"""How often a page that goes on while it is looked at is looked at again."""
ROUNDS = 20
"""How often in a row a page may go on by itself before it is taken as it is."""


class Window(Events):
    """The tabs of one episode, of which one is in front.

    Args:
        seat: in a browser.
        sites: all that can be reached.
    """

    async def begin(self, url: str) -> None:
        """Open the first page.

        Args:
            url: of it.

        Raises:
            InfrastructureError: it does not come.
        """
        try:
            self.seat.context.set_default_timeout(LOADING)
            await self._watch(self.seat.page)
            self.seat.context.on("dialog", self._dialog)
            self.seat.context.on("page", self._page)
            await self.page.goto(url)
            await self._settle()
        except Error as error:
            raise EnvironmentDiedError(f"the first page did not come: {error}") from error
        self._check()

    # -- acting -----------------------------------------------------------------------------------------------------

    async def act(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something, and wait until the tabs have come to rest where they may be.

        Args:
            work: what is done.

        Raises:
            ToolError: it cannot be done, or leads out of the sites.
            InfrastructureError: the browser or a site failed.
        """
        before = (self.page.url, len(self.tabs))
        failed: Exception | None = None
        try:
            await work
        except (Error, ToolError) as error:
            failed = error if isinstance(error, ToolError) else self._failure(error)
        try:
            await self._settle()
            told = await self._inside()
        except Error as error:
            raise self._failure(error) from error
        self._check()
        if failed is None and told and before == (self.page.url, len(self.tabs)):
            raise ToolError("; ".join(told))
        self.notices += told
        if failed is not None:
            raise failed

    async def look(self, wanted: Wanted) -> Page:
        """What is seen now.

        Args:
            wanted: what of it.

        Raises:
            InfrastructureError: the browser failed.
        """
        for left in reversed(range(LOOKS)):
            self._check()
            try:
                return await seen(self.tabs, self.front, wanted)
            except Error as error:
                if left and self.seat.chromium.alive and not self.page.is_closed():  # it went on meanwhile
                    await self._settle()
                    continue
                failure = self._failure(error)
                raise (
                    failure
                    if isinstance(failure, InfrastructureError)
                    else EnvironmentFailedError(f"a page cannot be seen: {error}")
                ) from error
        raise AssertionError("the last look returns or raises")

    async def picture(self) -> bytes:
        """What a person sees of the tab in front, PNG. Nothing is hidden or stopped for it, so nothing changes by it.

        Raises:
            ToolError: there is no picture now.
            InfrastructureError: the browser failed.
        """
        try:
            return await self.page.screenshot(animations="allow", caret="initial", timeout=PICTURE)
        except Error as error:
            raise self._failure(error) from error

    def goes(self, url: str, what: str) -> None:
        """Refuse an address that leads out of the sites, and note it.

        Args:
            url: as it is written.
            what: leads there, such as ``a link to``.

        Raises:
            ToolError: it leads out.
        """
        full = url if what == "goto" else urljoin(self.page.url, url.strip())
        stay(what, full, self.sites.hosts, self.violations)

    async def travel(self, by: int) -> None:
        """Go one page back or forward.

        Args:
            by: -1 or 1.

        Raises:
            ToolError: there is none.
        """
        tab = self.tab
        history: Any = await tab.control.send("Page.getNavigationHistory")
        entries, to = history["entries"], history["currentIndex"] + by
        own = tab.page is self.seat.page and entries[0]["url"] == "about:blank"  # nobody opened that
        if not int(own) <= to < len(entries):
            raise ToolError(f"there is no page to go {'back' if by < 0 else 'forward'} to")
        try:
            await (tab.page.go_back() if by < 0 else tab.page.go_forward())
        except Error as error:
            if "ERR_CACHE_MISS" not in str(error):
                raise
            await tab.rested()
            await tab.page.goto(entries[to]["url"])  # what was sent is not sent again

    async def new_tab(self) -> None:
        """Open an empty tab in front.

        Raises:
            ToolError: there are many already.
        """
        one_more(len(self.tabs))
        self._opening += 1
        await self.seat.context.new_page()

    async def close_tab(self) -> None:
        """Close the tab in front.

        Raises:
            ToolError: it is the last.
        """
        if len(self.tabs) == 1:
            raise ToolError("the last tab cannot be closed")
        await self._drop(self.tab)

    # -- coming to rest, inside -------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        for _ in range(ROUNDS):
            while self._opening > 0:
                self._opened.clear()
                try:
                    await asyncio.wait_for(self._opened.wait(), OPENING)
                except TimeoutError:
                    self._opening = 0
            tab = self.tab
            if await tab.rested() and self._opening <= 0 and self.tabs and tab is self.tab:
                return

    async def _inside(self) -> list[str]:
        """Bring every tab back to the sites of the episode; what an agent is to be told of it."""
        refused = list(self.seat.episode.refused)
        self.seat.episode.refused.clear()
        known = min(self._noted, len(refused))
        self._noted -= known
        told = list(dict.fromkeys(refused[known:]))
        self.violations += [f"a page elsewhere: {why}" for why in told]
        for tab in list(self.tabs):
            url = tab.lost or tab.page.url
            if why := way_out(url, self.sites.hosts):
                self.violations.append(f"a page at {url[:100]!r}")
                told.append(why)
                await self._back(tab)
            elif url.startswith("https:"):
                told.append(f"{url[:100]!r} is not answered: the sites are at http://")
                await self._back(tab)
            elif tab.lost:
                raise EnvironmentDiedError(f"{url} was not answered")
        if self._strays:
            self._strays = False
            await self._close_strays()
        return told

    async def _back(self, tab: Tab) -> None:
        """Where a tab was before it left; a tab that was nowhere is closed."""
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
        """Close windows that were opened for a page elsewhere: Playwright never hears of them."""
        control, known = self.seat.chromium.control, {tab.target for tab in self.tabs}
        listed: Any = await control.send("Target.getTargets")
        context = self.seat.target["browserContextId"]
        for one in listed["targetInfos"]:
            if one.get("browserContextId") == context and one["type"] == "page" and one["targetId"] not in known:
                with suppress(Error):
                    await control.send("Target.closeTarget", {"targetId": one["targetId"]})
