"""``MiniwobBrowser``: act on a MiniWoB page with the mouse and the keyboard, as a user does.

No action runs a script of the agent's, and none opens a URL. Elements are clicked at a point that a click reaches:
Playwright's own click would wait for widgets that overlap for some seeds until it gives up.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ToolError
from ...tasks.miniwob.suite import MiniwobTask, page_of
from ..web.browser import Button, Wanted
from ..web.chromium.browser import typing
from ..web.chromium.loop import LOOP
from ..web.chromium.pool import pool
from ..web.chromium.recorder import Recorder
from ..web.page import Page
from .chromium import Window, failing, run_action
from .loaded import loaded, window_for
from .looking import POINT, STILL, page_from

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import ElementHandle

BRIEF = 2_000.0
"""Milliseconds within which an action on an element succeeds or fails."""
LOOKS = 90
"""Most looks at a moving page until it comes to rest: three seconds, twice what the slowest page takes."""
ENDLESS = frozenset({"miniwob/chase-circle.html", "miniwob/moving-items.html"})
"""Pages that never rest: an observation shows one moment."""
STEPS = 12
"""Mouse movements of a drag."""
TYPED = frozenset({"date", "time", "datetime-local", "month", "week", "color", "range"})
"""Types of fields that take a value, not keys."""


class MiniwobBrowser:
    """One episode's page.

    Args:
        window: the window that has loaded the page.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self.notices, self.violations = self.window.notices, self.window.violations
        self._seen: Any = None
        # Without it, a browser that its user forgets to close would keep its window forever.
        self._end = weakref.finalize(self, _left, window)
        self._end.atexit = False

    @classmethod
    async def open(cls, task: MiniwobTask, trace: Path | None = None) -> MiniwobBrowser:
        """Open a page and start its episode.

        Args:
            task: the task, with its page and seed.
            trace: path of a trace of the episode, if wanted.

        Raises:
            UsageError: the package, Playwright or Chromium is missing.
            EnvironmentFailedError: the page does not start its episode.
        """
        page_of(task)

        async def opened() -> MiniwobBrowser:
            return cls(await window_for(task, trace))

        return await LOOP.run(opened())  # created on the loop: closes itself if its caller has given up

    @property
    def recorder(self) -> Recorder:
        """The recorder of the episode."""
        return self.window.recorder

    @property
    def utterance(self) -> str:
        """The page's request."""
        return self.window.utterance

    async def verdict(self) -> tuple[bool, float, str]:
        """Return whether the page has ended the episode, its raw reward in [-1, 1], and its reason."""
        return await LOOP.run(self.window.verdict())

    # -- acting on elements -----------------------------------------------------------------------------------------

    async def click(self, ref: str, button: Button = "left", *, double: bool = False) -> None:
        """Click an element."""
        await self._do(self._click(ref, button, 1 + double))

    async def _click(self, ref: str, button: Button, count: int) -> None:
        x, y = await self._point(ref)
        await self.window.page.mouse.click(x, y, button=button, click_count=count)

    async def hover(self, ref: str) -> None:
        """Move the mouse over an element."""

        async def work() -> None:
            await self.window.page.mouse.move(*await self._point(ref))

        await self._do(work())

    async def focus(self, ref: str) -> None:
        """Focus an element."""

        async def work() -> None:
            await (await self._element(ref)).focus()

        await self._do(work())

    async def fill(self, ref: str, value: str) -> None:
        """Replace the content of a field; by keys if it takes keys, since pages listen to them."""
        await self._do(self._fill(ref, value))

    async def _fill(self, ref: str, value: str) -> None:
        element, keyboard = await self._element(ref), self.window.page.keyboard
        tag, kind, fixed = await element.evaluate("e => [e.tagName, e.type || '', !!(e.readOnly || e.disabled)]")
        if tag not in ("INPUT", "TEXTAREA") or kind in ("checkbox", "radio", "button", "submit"):
            raise ToolError("this is not a field that can be filled in")
        if fixed:
            raise ToolError("this field cannot be written into; it may open something when it is clicked")
        if kind in TYPED:
            await element.fill(value, timeout=BRIEF)
            return
        await element.focus()
        await keyboard.press("Control+a")
        await keyboard.press("Delete")
        await typing(self.window.page, value if tag == "TEXTAREA" else " ".join(value.splitlines()))

    async def check(self, ref: str, on: bool) -> None:
        """Check or uncheck a checkbox."""

        async def work() -> None:
            element = await self._element(ref)
            kind, now = await element.evaluate("e => [e.type || '', !!e.checked]")
            if kind not in ("checkbox", "radio"):
                raise ToolError("this is not a checkbox or a radio button")
            if now != on:
                await self._click(ref, "left", 1)

        await self._do(work())

    async def select_option(self, ref: str, options: Sequence[str]) -> None:
        """Choose options of a list by their labels or values."""

        async def work() -> None:
            element = await self._element(ref)
            script = "e => e.tagName === 'SELECT' ? [...e.options].map(o => [o.text.trim(), o.value]) : null"
            known = await element.evaluate(script)
            if known is None:
                raise ToolError("this is not a list of options")
            chosen = [next((i for i, pair in enumerate(known) if one.strip() in pair), None) for one in options]
            if None in chosen:
                raise ToolError(f"there is no option {options[chosen.index(None)][:60]!r}")
            await element.select_option(index=[one for one in chosen if one is not None], timeout=BRIEF)

        await self._do(work())

    async def press(self, ref: str, keys: str) -> None:
        """Press a key in an element, or in the focused element."""

        async def work() -> None:
            if ref:
                await (await self._element(ref)).focus()
            await self.window.page.keyboard.press(keys)

        await self._do(work())

    async def type(self, text: str) -> None:
        """Type into the focused element."""
        await self._do(typing(self.window.page, text))

    async def drag(self, source: str, target: str) -> None:
        """Drag one element onto another."""

        async def work() -> None:
            ends = await self._point(source), await self._point(target)
            await self._drag(*ends)

        await self._do(work())

    # -- mouse ------------------------------------------------------------------------------------------------------

    async def mouse(self, x: float, y: float, button: Button = "left", *, double: bool = False) -> None:
        """Click a point of the window, in pixels."""
        await self._do(self.window.page.mouse.click(x, y, button=button, click_count=1 + double))

    async def move(self, x: float, y: float) -> None:
        """Move the mouse to a point of the window, in pixels."""
        await self._do(self.window.page.mouse.move(x, y, steps=STEPS))

    async def hold(self, down: bool) -> None:
        """Press or release the left mouse button at its current position."""
        mouse = self.window.page.mouse
        await self._do(mouse.down() if down else mouse.up())

    async def draw(self, from_x: float, from_y: float, to_x: float, to_y: float) -> None:
        """Drag from one point of the window to another, in pixels."""
        await self._do(self._drag((from_x, from_y), (to_x, to_y)))

    async def _drag(self, source: tuple[float, float], target: tuple[float, float]) -> None:
        mouse = self.window.page.mouse
        await mouse.move(*source)
        await mouse.down()
        await mouse.move(*target, steps=STEPS)
        await mouse.up()

    async def scroll(self, dx: float, dy: float) -> None:
        """Scroll the element under the mouse by some pixels."""
        await self._do(self.window.page.mouse.wheel(dx, dy))

    # -- navigation: refused ---------------------------------------------------------------------------------------

    async def goto(self, url: str) -> None:
        """Refuse: opening the page again would start another episode."""
        self.violations.append(f"goto {url[:100]!r}")
        raise ToolError("nothing can be opened here: this task is one page")

    async def go_back(self) -> None:
        """Refuse."""
        await self.goto("the page before")

    async def go_forward(self) -> None:
        """Refuse."""
        await self.goto("the page after")

    async def new_tab(self) -> None:
        """Refuse."""
        await self.goto("about:blank")

    async def tab_focus(self, number: int) -> None:
        """Accept only tab 0, the only one."""
        if number != 0:
            raise ToolError("there is one tab, number 0")

    async def tab_close(self) -> None:
        """Refuse."""
        raise ToolError("the last tab cannot be closed")

    # -- looking ----------------------------------------------------------------------------------------------------

    async def rest(self, seconds: float) -> None:
        """Let the page continue for some seconds."""
        await asyncio.sleep(seconds)

    async def look(self, wanted: Wanted) -> Page:
        """Return the observation of the page once it has come to rest."""
        return await LOOP.run(self._look(wanted))

    async def _look(self, wanted: Wanted) -> Page:
        page = self.window.page
        async with pool().works, failing(self.window.url):
            self._seen = await page.evaluate_handle(STILL, 1 if self.window.path in ENDLESS else LOOKS)
            nodes = await self._seen.evaluate("o => ({nodes: o.nodes, title: o.title})")
            picture = await page.screenshot(clip=self.window.area) if wanted.picture else b""
            await self.window.run()
        loaded().refill(self.window.path)  # only now, while the agent thinks: earlier it would delay this observation
        return page_from(nodes, self.window.url, picture)

    async def close(self) -> None:
        """Close the browser at the end of its episode; may be called again."""
        await LOOP.run(self.window.close())
        self._end.detach()

    # -- internals --------------------------------------------------------------------------------------------------

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        await LOOP.run(run_action(work))

    async def _element(self, ref: str) -> ElementHandle:
        handle = await self._seen.evaluate_handle("(o, n) => o.elements[n]", int(ref))
        element: ElementHandle | None = handle.as_element()
        if element is None:
            raise ToolError("this element is no longer on the page")
        return element

    async def _point(self, ref: str) -> tuple[float, float]:
        found = await (await self._element(ref)).evaluate(POINT)
        if "why" in found:
            raise ToolError(f"this element cannot be reached: {found['why']}")
        return float(found["x"]), float(found["y"])


def _left(window: Window) -> None:
    LOOP.submit(window.close())
