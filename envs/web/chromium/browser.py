"""``ChromiumBrowser``: a real browser. It works from any event loop; Chromium runs on an event loop of its own."""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ....errors import EnvironmentDiedError, ToolError
from ..browser import Browser, Button, Wanted
from ..page import Node, Page
from .browser_slot import BrowserSlot
from .loop import LOOP
from .pool import Pool, pool
from .recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Locator
    from playwright.async_api import Page as Shown

    from .server import Served
    from .window import Window

PATIENCE = 8_000
"""Milliseconds for an element to become actionable, also on a busy machine."""
KEYS = 200
"""Most characters to type key by key; longer text is inserted at once."""
TRIES = 3
"""Attempts to start an episode if browsers die before it starts."""
OPTIONS = "list => Array.from(list.options ?? [], one => [one.value, one.label.trim().replace(/\\s+/g, ' ')])"


async def open_browser(sites: Served, url: str, of: Pool | None = None, trace: Path | None = None) -> Browser:
    """Open a page in a browser of its own.

    Args:
        sites: the sites that the browser can reach.
        url: URL of the first page.
        of: pool that provides the browser; omitted, the process's own.
        trace: path of a trace of the episode, if wanted.

    Raises:
        UsageError: Chromium or Playwright is missing; the message says what to install.
        EnvironmentDiedError: Chromium died again and again.
    """
    return await LOOP.run(_opened(sites, url, of or pool(), trace))


async def _opened(sites: Served, url: str, of: Pool, trace: Path | None) -> ChromiumBrowser:
    for left in reversed(range(TRIES)):
        async with of.works:
            slot = await of.take(sites, trace)
            from .window import Window  # needs Playwright, which is installed if there is a slot

            window = Window(slot, sites)
            try:
                await window.begin(url)
            except BaseException as error:
                of.leave_in_background(slot)
                if isinstance(error, EnvironmentDiedError) and left:
                    continue
                raise
        return ChromiumBrowser(of, slot, window)
    raise AssertionError("the last try returns or raises")


def look_around(browser: Browser) -> dict[str, str]:
    """Return URLs at which you can open the sites of a running episode in your own browser, by host.

    They work on this machine only. You are logged in as the agent is at the start, and your actions change the
    episode's rows. A URL is a secret: a client that knows it controls the episode.

    Args:
        browser: the environment's browser, ``env.browser``.

    Raises:
        ToolError: the browser is not Chromium.
    """
    if not isinstance(browser, ChromiumBrowser):
        raise ToolError("only episodes in Chromium are served to people")
    return browser.addresses()


class ChromiumBrowser:
    """One episode's tabs in the Chromium of this process.

    Args:
        pool: the pool that the slot belongs to.
        slot: the episode's slot in a browser.
        window: the episode's tabs.
    """

    def __init__(self, pool: Pool, slot: BrowserSlot, window: Window) -> None:
        self.pool, self.slot, self.window = pool, slot, window
        self.notices, self.violations = window.notices, window.violations
        self.recorder = Recorder(pool, slot, window.picture)
        self._nodes: dict[str, Node] = {}
        self._turn = asyncio.Lock()
        self._closed = False
        # Without it, a browser that its user forgets to close would keep its tabs forever.
        self._end = weakref.finalize(self, _left, pool, slot)
        self._end.atexit = False

    async def _act(self, work: Coroutine[Any, Any, Any]) -> None:
        async def one_at_a_time() -> None:
            try:
                async with self._turn, self.pool.works:
                    self._open()
                    await self.window.act(work)
            finally:
                work.close()  # has no effect if it was awaited

        await LOOP.run(one_at_a_time())

    def _open(self) -> None:
        if self._closed:
            raise ToolError("this browser is closed")

    def _at(self, ref: str) -> Locator:
        node = self._nodes.get(ref)
        if node is None:
            raise ToolError("the page has changed and no longer has this element")
        if "disabled" in node.states:
            raise ToolError("this element is disabled")
        return self.window.page.locator(f"aria-ref={ref}")

    def _follows(self, ref: str) -> None:
        if (node := self._nodes.get(ref)) is not None and node.role == "link" and node.url:
            self.window.goes(node.url, "a link to")

    # -- navigation -------------------------------------------------------------------------------------------------

    async def goto(self, url: str) -> None:
        """Open a URL."""

        async def work() -> None:
            self.window.goes(url, "goto")
            await self.window.page.goto(url)

        await self._act(work())

    async def go_back(self) -> None:
        """Go back one page."""
        await self._act(self.window.travel(-1))

    async def go_forward(self) -> None:
        """Go forward one page."""
        await self._act(self.window.travel(1))

    async def new_tab(self) -> None:
        """Open an empty tab and switch to it."""
        await self._act(self.window.new_tab())

    async def tab_focus(self, number: int) -> None:
        """Switch to a tab by its index, from 0."""

        async def work() -> None:
            if not 0 <= number < len(self.window.tabs):
                raise ToolError(f"there is no tab {number}; the tabs are 0 to {len(self.window.tabs) - 1}")
            self.window.front = number
            await self.window.page.bring_to_front()

        await self._act(work())

    async def tab_close(self) -> None:
        """Close the current tab."""
        await self._act(self.window.close_tab())

    # -- on elements ------------------------------------------------------------------------------------------------

    async def click(self, ref: str, button: Button = "left", *, double: bool = False) -> None:
        """Click an element."""

        async def work() -> None:
            at = self._at(ref)
            if button != "right":
                self._follows(ref)
            opens = button == "middle" and await at.evaluate("one => one.closest('a[href]') !== null", timeout=PATIENCE)
            await at.click(button=button, click_count=2 if double else 1, timeout=PATIENCE)
            if opens:
                self.window.expect_tab()

        await self._act(work())

    async def hover(self, ref: str) -> None:
        """Move the mouse over an element."""

        async def work() -> None:
            await self._at(ref).hover(timeout=PATIENCE)

        await self._act(work())

    async def focus(self, ref: str) -> None:
        """Focus an element."""

        async def work() -> None:
            await self._at(ref).focus(timeout=PATIENCE)

        await self._act(work())

    async def fill(self, ref: str, value: str) -> None:
        """Replace the content of a field."""

        async def work() -> None:
            await self._at(ref).fill(value, timeout=PATIENCE)

        await self._act(work())

    async def check(self, ref: str, on: bool) -> None:
        """Check or uncheck a checkbox."""

        async def work() -> None:
            await self._at(ref).set_checked(on, timeout=PATIENCE)

        await self._act(work())

    async def select_option(self, ref: str, options: Sequence[str]) -> None:
        """Choose options of a list by their labels or values."""

        async def work() -> None:
            at = self._at(ref)
            known: list[list[str]] = await at.evaluate(OPTIONS, timeout=PATIENCE)
            if not known:
                raise ToolError("this element is not a list of options")
            wanted = []
            for option in options:
                found = next((number for number, one in enumerate(known) if option in one), None)
                if found is None:
                    there = ", ".join(label for _, label in known)
                    raise ToolError(f"there is no option {option[:60]!r}; the options are {there}")
                wanted.append(found)
            if len(wanted) > 1 and self._nodes[ref].role != "listbox":
                raise ToolError("only one option can be selected in this list")
            await at.select_option(index=wanted, timeout=PATIENCE)

        await self._act(work())

    async def press(self, ref: str, keys: str) -> None:
        """Press a key or a combination in an element, or in the focused element."""

        async def work() -> None:
            if not ref:
                await self.window.page.keyboard.press(keys)
                return
            at = self._at(ref)
            if keys.endswith(("Enter", "Return")):
                self._follows(ref)
            await at.press(keys, timeout=PATIENCE)

        await self._act(work())

    async def drag(self, source: str, target: str) -> None:
        """Drag one element onto another."""

        async def work() -> None:
            await self._at(source).drag_to(self._at(target), timeout=PATIENCE)

        await self._act(work())

    # -- mouse and keyboard -----------------------------------------------------------------------------------------

    async def type(self, text: str) -> None:
        """Type into the focused element."""
        await self._act(typing(self.window.page, text, self.window.settle))

    async def mouse(self, x: float, y: float, button: Button = "left", *, double: bool = False) -> None:
        """Click a point of the window, in pixels."""
        await self._act(self.window.page.mouse.click(x, y, button=button, click_count=2 if double else 1))

    async def scroll(self, dx: float, dy: float) -> None:
        """Scroll the page by some pixels."""
        await self._act(self.window.page.mouse.wheel(dx, dy))

    async def rest(self, seconds: float) -> None:
        """Let the page continue for some seconds."""
        await asyncio.sleep(seconds)  # holds no slot of the pool
        await self._act(asyncio.sleep(0))

    # -- what is seen -----------------------------------------------------------------------------------------------

    async def look(self, wanted: Wanted) -> Page:
        """Return the observation of the current tab."""

        async def looked() -> Page:
            async with self._turn, self.pool.works:
                self._open()
                page = await self.window.look(wanted)
            self.pool.refill()  # only now, while the agent thinks: earlier it would delay this observation
            return page

        page = await LOOP.run(looked())
        self._nodes = {node.ref: node for node in page.walk() if node.ref}
        return page

    def addresses(self) -> dict[str, str]:
        """Return the URLs for human viewers of this episode's sites, by host."""
        sites, server = self.window.sites, self.pool.server
        return {host: server.address(self.slot.key, host) for host in sorted(sites.hosts)}

    async def close(self) -> None:
        """Close the episode's tabs."""
        self._closed = True
        if self._end.detach() is not None:
            LOOP.submit(self.pool.leave(self.slot))


async def typing(page: Shown, text: str, entered: Callable[[], Awaitable[object]] | None = None) -> None:
    """Type into the focused element; insert most of a long text at once, since every key takes milliseconds.

    Args:
        page: Playwright's page.
        text: text to type.
        entered: called after each line break, to wait for the page that it may lead to; the rest is typed there.

    Raises:
        ToolError: the page went away while the text was typed.
    """
    if len(text) <= KEYS:
        await page.keyboard.type(text)
        return
    # Beyond KEYS line breaks the rest is written at once: thousands of Enter keys take minutes.
    for number, line in enumerate(re.split("[\r\n]", text, maxsplit=KEYS)):
        if number:
            await page.keyboard.press("Enter")
            if entered is not None:
                await entered()
        if line:
            try:
                async with asyncio.timeout(PATIENCE / 1000):
                    await page.keyboard.insert_text(line)
            except TimeoutError:  # Chromium never answers if another page replaces the one that the text was meant for
                raise ToolError("the page changed while you typed, and the rest of the text was not typed") from None


def _left(pool: Pool, slot: BrowserSlot) -> None:
    LOOP.submit(pool.leave(slot))
