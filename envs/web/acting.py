"""``WebTools``: a browser's actions as tools and as text, for every environment that uses a browser."""

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
"""Milliseconds that one ``noop`` may wait, and that all calls of one message together may wait."""


class WebTools(ToolEnv[TaskT]):
    """Act through a browser. A subclass sets ``browser`` and ``page`` when an episode starts.

    The actions are BrowserGym's: tool calls, or a message such as ``click('12')``. An action names an element by the
    number in front of it in the last observation.
    """

    browser: Browser
    page: Page
    wanted: Wanted = Wanted()
    ending: Ending | None = None
    _waited: int = 0
    """Milliseconds that the calls of the current message have waited."""

    # -- acting on elements -----------------------------------------------------------------------------------------

    @tool
    async def click(self, id: Id, button: Button = "left") -> Any:
        """Click an element.

        Args:
            id: ID of the element: the number in front of it.
            button: mouse button.
        """
        return await self._after(self.browser.click(self._ref(id), button))

    @tool
    async def dblclick(self, id: Id, button: Button = "left") -> Any:
        """Double-click an element.

        Args:
            id: ID of the element: the number in front of it.
            button: mouse button.
        """
        return await self._after(self.browser.click(self._ref(id), button, double=True))

    @tool
    async def fill(self, id: Id, value: Text) -> Any:
        """Replace the content of a field.

        Args:
            id: ID of the element: the number in front of it.
            value: new content of the field.
        """
        return await self._after(self.browser.fill(self._ref(id), value))

    @tool
    async def clear(self, id: Id) -> Any:
        """Clear a field.

        Args:
            id: ID of the element: the number in front of it.
        """
        return await self._after(self.browser.fill(self._ref(id), ""))

    @tool
    async def check(self, id: Id) -> Any:
        """Check a checkbox or select a radio button.

        Args:
            id: ID of the element: the number in front of it.
        """
        return await self._after(self.browser.check(self._ref(id), True))

    @tool
    async def uncheck(self, id: Id) -> Any:
        """Uncheck a checkbox.

        Args:
            id: ID of the element: the number in front of it.
        """
        return await self._after(self.browser.check(self._ref(id), False))

    @tool
    async def select_option(self, id: Id, options: Text | list[Text]) -> Any:
        """Select an option in a list.

        Args:
            id: ID of the list: the number in front of it.
            options: label of the option, or several labels if the list allows it.
        """
        wanted = [options] if isinstance(options, str) else options
        return await self._after(self.browser.select_option(self._ref(id), wanted))

    @tool
    async def press(self, id: Id, key_comb: Annotated[str, pydantic.Field(max_length=60)]) -> Any:
        """Focus an element and press a key.

        Args:
            id: ID of the element: the number in front of it.
            key_comb: key or key combination, such as Enter, a or Control+a.
        """
        return await self._after(self.browser.press(self._ref(id), key_comb))

    @tool
    async def hover(self, id: Id) -> Any:
        """Move the mouse over an element.

        Args:
            id: ID of the element: the number in front of it.
        """
        return await self._after(self.browser.hover(self._ref(id)))

    @tool
    async def focus(self, id: Id) -> Any:
        """Focus an element.

        Args:
            id: ID of the element: the number in front of it.
        """
        return await self._after(self.browser.focus(self._ref(id)))

    @tool
    async def drag_and_drop(self, from_id: Id, to_id: Id) -> Any:
        """Drag one element onto another.

        Args:
            from_id: ID of the element to drag.
            to_id: ID of the element to drop it on.
        """
        return await self._after(self.browser.drag(self._ref(from_id), self._ref(to_id)))

    # -- mouse and keyboard -----------------------------------------------------------------------------------------

    @tool
    async def mouse_click(self, x: Point, y: Point, button: Button = "left") -> Any:
        """Click at a point in the window.

        Args:
            x: distance from the left edge in pixels.
            y: distance from the top edge in pixels.
            button: mouse button.
        """
        return await self._after(self.browser.mouse(x, y, button))

    @tool
    async def keyboard_type(self, text: Text) -> Any:
        """Type text into the focused element.

        Args:
            text: text to type.
        """
        return await self._after(self.browser.type(text))

    @tool
    async def keyboard_press(self, key: Annotated[str, pydantic.Field(max_length=60)]) -> Any:
        """Press a key in the focused element.

        Args:
            key: key or key combination, such as Enter, Tab or Control+a.
        """
        return await self._after(self.browser.press("", key))

    @tool
    async def scroll(self, delta_x: Point, delta_y: Point) -> Any:
        """Scroll the page.

        Args:
            delta_x: distance to the right in pixels.
            delta_y: distance down in pixels.
        """
        return await self._after(self.browser.scroll(delta_x, delta_y))

    @tool
    async def noop(self, wait_ms: Annotated[int, pydantic.Field(ge=0, le=LONGEST_WAIT)] = 1000) -> Any:
        """Wait, then look at the page again.

        Args:
            wait_ms: time to wait in milliseconds.
        """
        wait = min(wait_ms, LONGEST_WAIT - self._waited)
        self._waited += wait
        return await self._after(self.browser.rest(wait / 1000))

    # -- navigation -------------------------------------------------------------------------------------------------

    @tool
    async def goto(self, url: Annotated[str, pydantic.Field(max_length=2_000)]) -> Any:
        """Open a URL.

        Args:
            url: URL that begins with http://.
        """
        return await self._after(self.browser.goto(url))

    @tool
    async def go_back(self) -> Any:
        """Go back one page."""
        return await self._after(self.browser.go_back())

    @tool
    async def go_forward(self) -> Any:
        """Go forward one page."""
        return await self._after(self.browser.go_forward())

    @tool
    async def new_tab(self) -> Any:
        """Open an empty tab."""
        return await self._after(self.browser.new_tab())

    @tool
    async def tab_focus(self, index: Annotated[int, pydantic.Field(ge=0, le=100)]) -> Any:
        """Switch to a tab.

        Args:
            index: index of the tab, starting at 0.
        """
        return await self._after(self.browser.tab_focus(index))

    @tool
    async def tab_close(self) -> Any:
        """Close the current tab."""
        return await self._after(self.browser.tab_close())

    # -- the end ----------------------------------------------------------------------------------------------------

    @tool(ends=True)
    async def send_msg_to_user(self, text: Text) -> str:
        """Tell the user that the task is done, with the answer if there was a question. This ends the task.

        Args:
            text: the answer, or any text if there was no question.
        """
        self.ending = Ending(done=True, answer=text)
        return "The task has ended."

    @tool(ends=True)
    async def report_infeasible(self, reason: Text) -> str:
        """Tell the user that the task cannot be done. This ends the task.

        Args:
            reason: fact that shows why it cannot be done.
        """
        self.ending = Ending(reason="not_possible", evidence=reason)
        return "The task has ended."

    # -- internals --------------------------------------------------------------------------------------------------

    def act(self, action: Action) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Act; parse a message without calls as actions."""
        if not action.tool_calls and action.text.strip():
            action = Action(action.text, read(action.text, parameters(cast(Hashable, type(self)))))
        self._waited = 0
        self.acted(action.tool_calls[: self.max_calls])
        return super().act(action)

    def acted(self, calls: Sequence[ToolCall]) -> None:
        """Hook for subclasses: receives the calls of a message before they run on the current page."""

    def _ref(self, id: str) -> str:
        node = self.page.by_id.get(id.strip().strip("[]"))
        if node is None:
            raise ToolError(f"there is no element {id[:20]!r} in the last observation")
        return node.ref

    async def _after(self, act: Awaitable[None]) -> Sequence[Part]:
        """Act and observe."""
        await act
        self.page = await self.browser.look(self.wanted)
        return self.observed().messages[0].parts

    def observed(self, said: str = "") -> Observation:
        """Return the observation of the current page.

        Args:
            said: text to put before it.
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
    """Return the parameter names of every action, in order."""
    return {one.name: list(one.parameters["properties"]) for one in tools_of(kind)}
