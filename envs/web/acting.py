"""``WebTools``: a browser's actions as tools, and as text; for every environment that is acted in through a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Sequence
from functools import lru_cache
from typing import Annotated, Any, cast

import pydantic

from ...errors import ToolError
from ...tasks.rows.judge import Ending
from ..base import TaskT
from ..messages import Action, ImagePart, Message, Observation, ObservationLike, Part, TextPart, ToolCall
from ..step import Step
from ..toolenv import ToolEnv
from ..tools import tool, tools_of
from .actions import read
from .browser import Browser, Button, Wanted
from .page import Page

Id = Annotated[str, pydantic.Field(max_length=20)]
Text = Annotated[str, pydantic.Field(max_length=20_000)]
Point = Annotated[float, pydantic.Field(ge=-100_000, le=100_000)]
LONGEST_WAIT = 5_000
"""Milliseconds that ``noop`` may wait, and all of one message together."""


class WebTools(ToolEnv[TaskT]):
    """Acting through a browser. A subclass sets ``browser`` and ``page`` when an episode starts.

    The actions are BrowserGym's: tools to be called, or a message such as ``click('12')``. An element is named by the
    number in front of it in the last observation.
    """

    browser: Browser
    page: Page
    wanted: Wanted = Wanted()
    ending: Ending | None = None
    _waited: int = 0
    """Milliseconds that the calls of this message have waited."""

    # -- acting on elements -----------------------------------------------------------------------------------------

    @tool
    async def click(self, id: Id, button: Button = "left") -> Any:
        """Click an element.

        Args:
            id: the number in front of it.
            button: of the mouse.
        """
        return await self._after(self.browser.click(self._ref(id), button))

    @tool
    async def dblclick(self, id: Id, button: Button = "left") -> Any:
        """Double-click an element.

        Args:
            id: the number in front of it.
            button: of the mouse.
        """
        return await self._after(self.browser.click(self._ref(id), button, double=True))

    @tool
    async def fill(self, id: Id, value: Text) -> Any:
        """Replace what is in a field.

        Args:
            id: the number in front of it.
            value: what shall be in it.
        """
        return await self._after(self.browser.fill(self._ref(id), value))

    @tool
    async def clear(self, id: Id) -> Any:
        """Empty a field.

        Args:
            id: the number in front of it.
        """
        return await self._after(self.browser.fill(self._ref(id), ""))

    @tool
    async def check(self, id: Id) -> Any:
        """Set a checkbox or radio button.

        Args:
            id: the number in front of it.
        """
        return await self._after(self.browser.check(self._ref(id), True))

    @tool
    async def uncheck(self, id: Id) -> Any:
        """Clear a checkbox.

        Args:
            id: the number in front of it.
        """
        return await self._after(self.browser.check(self._ref(id), False))

    @tool
    async def select_option(self, id: Id, options: Text | list[Text]) -> Any:
        """Choose in a list.

        Args:
            id: the number in front of the list.
            options: the option's label, or several where several can be chosen.
        """
        wanted = [options] if isinstance(options, str) else options
        return await self._after(self.browser.select_option(self._ref(id), wanted))

    @tool
    async def press(self, id: Id, key_comb: Annotated[str, pydantic.Field(max_length=60)]) -> Any:
        """Press a key in an element.

        Args:
            id: the number in front of it.
            key_comb: such as Enter, a or Control+a.
        """
        return await self._after(self.browser.press(self._ref(id), key_comb))

    @tool
    async def hover(self, id: Id) -> Any:
        """Move the mouse over an element.

        Args:
            id: the number in front of it.
        """
        return await self._after(self.browser.hover(self._ref(id)))

    @tool
    async def focus(self, id: Id) -> Any:
        """Put the cursor into an element.

        Args:
            id: the number in front of it.
        """
        return await self._after(self.browser.focus(self._ref(id)))

    @tool
    async def drag_and_drop(self, from_id: Id, to_id: Id) -> Any:
        """Drag an element onto another.

        Args:
            from_id: the number in front of what is dragged.
            to_id: the number in front of where to.
        """
        return await self._after(self.browser.drag(self._ref(from_id), self._ref(to_id)))

    # -- mouse and keyboard -----------------------------------------------------------------------------------------

    @tool
    async def mouse_click(self, x: Point, y: Point, button: Button = "left") -> Any:
        """Click a point of the window.

        Args:
            x: pixels from the left.
            y: pixels from the top.
            button: of the mouse.
        """
        return await self._after(self.browser.mouse(x, y, button))

    @tool
    async def keyboard_type(self, text: Text) -> Any:
        """Type into whatever has the cursor.

        Args:
            text: what to type.
        """
        return await self._after(self.browser.type(text))

    @tool
    async def keyboard_press(self, key: Annotated[str, pydantic.Field(max_length=60)]) -> Any:
        """Press a key for whatever has the cursor.

        Args:
            key: such as Enter, Tab or Control+a.
        """
        return await self._after(self.browser.press("", key))

    @tool
    async def scroll(self, delta_x: Point, delta_y: Point) -> Any:
        """Scroll the page.

        Args:
            delta_x: pixels to the right.
            delta_y: pixels down.
        """
        return await self._after(self.browser.scroll(delta_x, delta_y))

    @tool
    async def noop(self, wait_ms: Annotated[int, pydantic.Field(ge=0, le=LONGEST_WAIT)] = 1000) -> Any:
        """Do nothing for a while, and look again.

        Args:
            wait_ms: milliseconds.
        """
        wait = min(wait_ms, LONGEST_WAIT - self._waited)
        self._waited += wait
        return await self._after(self.browser.rest(wait / 1000))

    # -- where to ---------------------------------------------------------------------------------------------------

    @tool
    async def goto(self, url: Annotated[str, pydantic.Field(max_length=2_000)]) -> Any:
        """Open an address.

        Args:
            url: begins with http://.
        """
        return await self._after(self.browser.goto(url))

    @tool
    async def go_back(self) -> Any:
        """Go one page back."""
        return await self._after(self.browser.go_back())

    @tool
    async def go_forward(self) -> Any:
        """Go one page forward again."""
        return await self._after(self.browser.go_forward())

    @tool
    async def new_tab(self) -> Any:
        """Open an empty tab."""
        return await self._after(self.browser.new_tab())

    @tool
    async def tab_focus(self, index: Annotated[int, pydantic.Field(ge=0, le=100)]) -> Any:
        """Bring a tab to the front.

        Args:
            index: its number, from 0.
        """
        return await self._after(self.browser.tab_focus(index))

    @tool
    async def tab_close(self) -> Any:
        """Close the tab in front."""
        return await self._after(self.browser.tab_close())

    # -- the end ----------------------------------------------------------------------------------------------------

    @tool(ends=True)
    async def send_msg_to_user(self, text: Text) -> str:
        """Tell the user that the task is done, with the answer if one was asked for. The task ends with that.

        Args:
            text: the answer, or any text.
        """
        self.ending = Ending(done=True, answer=text)
        return "The task is over."

    @tool(ends=True)
    async def report_infeasible(self, reason: Text) -> str:
        """Tell the user that the task cannot be done. It ends with that.

        Args:
            reason: the fact that shows it.
        """
        self.ending = Ending(reason="not_possible", evidence=reason)
        return "The task is over."

    # -- the inside -------------------------------------------------------------------------------------------------

    def act(self, action: Action) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Act; a message without calls is read as actions."""
        if not action.tool_calls and action.text.strip():
            action = Action(action.text, read(action.text, parameters(cast(Hashable, type(self)))))
        self._waited = 0
        self.acted(action.tool_calls[: self.max_calls])
        return super().act(action)

    def acted(self, calls: Sequence[ToolCall]) -> None:
        """What is about to be done on the page in front; for whoever keeps account of it."""

    def _ref(self, id: str) -> str:
        node = self.page.by_id.get(id.strip().strip("[]"))
        if node is None:
            raise ToolError(f"there is no element {id[:20]!r} in the last observation")
        return node.ref

    async def _after(self, act: Awaitable[None]) -> Sequence[Part]:
        """Act, and look."""
        await act
        self.page = await self.browser.look(self.wanted)
        return self.observed().messages[0].parts

    def observed(self, said: str = "") -> Observation:
        """What an agent sees of the page in front.

        Args:
            said: before it.
        """
        page = self.page
        text = page.source if self.wanted.source else page.text
        notices = [f"Note: {one}" for one in self.browser.notices]
        self.browser.notices.clear()
        whole = "\n".join(part for part in (said + "\n" * bool(said), *notices, text) if part)
        most = self.contract.max_observation_chars
        if len(whole) > most:
            whole = whole[: most - 60] + "\n… the rest of the page is left out: it is too long"
        pictures = (ImagePart(page.picture),) if page.picture else ()
        return Observation((Message("user", (TextPart(whole), *pictures)),))

    async def leave(self) -> None:
        """Close the browser of the last episode."""
        last: Browser | None = getattr(self, "browser", None)
        if last is not None:
            await last.close()


@lru_cache(maxsize=64)
def parameters(kind: Any) -> dict[str, list[str]]:
    """The names of every action's parameters, in order."""
    return {one.name: list(one.parameters["properties"]) for one in tools_of(kind)}
