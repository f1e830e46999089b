"""MiniWoB++'s 128 tasks as environments: small pages in Chromium, each with one request, judged by the page itself.

Ids: ``turnwise/MiniWoB-ClickTest2-v1`` and so on, one for each page of the package ``miniwob``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ToolError, UsageError
from ...tasks.family import TaskFamily
from ...tasks.miniwob.suite import MiniwobTask, family_of, installed
from ...tasks.rng import Rng, stable_hash
from ...tasks.score import Score
from ..base import NearMiss
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, ObservationLike, Part, TextPart
from ..step import Step, running
from ..tools import Tool, tool, tools_of
from ..web.acting import Point
from ..web.browser import Wanted
from ..web.recording.recorded import RecordedTools
from .attacks import attacks_on
from .near_misses import NEAR_MISSES

if TYPE_CHECKING:
    from .browser import MiniwobBrowser

Paid = Literal["success", "raw"]
ELSEWHERE = frozenset({"goto", "go_back", "go_forward", "new_tab", "tab_focus", "tab_close"})
"""Actions that open pages. They could only restart the episode, so they are not offered."""
ENDS = frozenset({"send_msg_to_user", "report_infeasible"})
"""Actions that end a task. The page ends it instead, so they are not offered."""
REASON = "the page judges itself and tells nobody how it is solved: there is no oracle for other people's 128 pages"


class MiniwobEnv(RecordedTools[MiniwobTask]):
    """Do what a page asks for. The page ends the episode; before that, it gives no feedback.

    Args:
        page: name of a page of the suite, such as ``click-test-2``.
        reward: ``"success"``: 1 if the page's raw reward is above 0, else 0; ``"raw"``: that raw reward, in [-1, 1].
        screenshot: add a screenshot of the page to every observation.
        record: folder for recordings of the episodes, for human viewers.
        trace: add Playwright's trace to each recording.
        max_turns: limit of actions per episode.
        render_mode: Gymnasium's render mode.

    Raises:
        UsageError: the package is not installed, the page or reward is unknown, or recording is impossible.
    """

    family: TaskFamily[MiniwobTask] | None = family_of("click-test")
    blocking = False
    forks = Forks.REPLAY
    max_turns = 30
    contract = Contract(max_observation_chars=60_000, max_seconds=60.0, random_floor=1.0, exempt={"all": REASON})

    browser: MiniwobBrowser
    raw: float = 0.0
    """The page's raw reward, in [-1, 1]; 0 before its verdict."""
    reason: str = ""
    over: bool = False

    def __init__(
        self,
        *,
        page: str = "click-test",
        reward: Paid = "success",
        screenshot: bool = False,
        record: Path | str | None = None,
        trace: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if reward not in ("success", "raw"):
            raise UsageError(f"MiniWoB is paid by 'success' or 'raw'; got {reward!r}")
        installed()  # fails here if the package is missing, and not in the first episode
        self.record_into(record, trace=trace)
        self.tasks = partial(family_of, page)  # type: ignore[method-assign]  # every id has its own
        self.paid, self.wanted = reward, Wanted(picture=screenshot, every=True)
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    # -- the episode ------------------------------------------------------------------------------------------------

    def start(self, task: MiniwobTask, rng: Rng) -> ObservationLike | Awaitable[ObservationLike]:
        """Open the page as upstream's driver does, and return its request."""
        return self._start(task)

    async def _start(self, task: MiniwobTask) -> ObservationLike:
        from .browser import MiniwobBrowser  # imports FastAPI, which takes longer than listing 128 environments

        self.raw, self.reason, self.over = 0.0, "", False
        await self.leave()
        self.browser = await MiniwobBrowser.open(task, self.begin_recording())
        self.page = await self.browser.look(self.wanted)
        return self.observed(f"Task: {self.browser.utterance}")

    def offered(self) -> Sequence[Tool]:
        """Return the actions for a single page that ends by itself."""
        return tuple(one for one in tools_of(type(self)) if one.name not in ELSEWHERE | ENDS)

    def turns_at(self, level: int) -> int:
        """Return the turn limit, which is the same for every level."""
        return self.max_turns

    def ends_with(self, tool: Tool) -> bool:
        """Return whether the page has ended the episode; later calls of the message are then skipped."""
        return self.over

    def act(self, action: Action) -> Step | ObservationLike | Awaitable[Step | ObservationLike]:
        """Act, and fetch the page's verdict whatever happened."""
        return self._act(action)

    async def _act(self, action: Action) -> Step:
        done = super().act(action)
        step = await done if isinstance(done, Awaitable) else done
        await self._heard()
        step = step if isinstance(step, Step) else running(step)
        info = {**step.info, "raw_reward": self.raw, "reason": self.reason}
        return replace(step, terminated=True, info=info) if self.over else step

    async def _after(self, act: Awaitable[None]) -> Sequence[Part]:
        """Act, unless the page has meanwhile ended the episode by itself, and observe."""
        try:
            await self._heard()
            if self.over:
                raise ToolError("the task has ended")
        except BaseException:
            if inspect.iscoroutine(act):
                act.close()  # it will not be awaited
            raise
        await act
        self.page = await self.browser.look(self.wanted)
        await self._heard()
        return (TextPart("The task is over."),) if self.over else self.observed().messages[0].parts

    async def _heard(self) -> None:
        if not self.over:  # the first verdict counts: later changes of the page have no effect
            self.over, self.raw, self.reason = await self.browser.verdict()

    # -- more for the mouse -----------------------------------------------------------------------------------------

    @tool
    async def mouse_move(self, x: Point, y: Point) -> Any:
        """Move the mouse.

        Args:
            x: pixels from the left.
            y: pixels from the top.
        """
        return await self._after(self.browser.move(x, y))

    @tool
    async def mouse_down(self) -> Any:
        """Press the left mouse button where the mouse is, and hold it."""
        return await self._after(self.browser.hold(True))

    @tool
    async def mouse_up(self) -> Any:
        """Let the left mouse button go."""
        return await self._after(self.browser.hold(False))

    @tool
    async def mouse_drag_and_drop(self, from_x: Point, from_y: Point, to_x: Point, to_y: Point) -> Any:
        """Drag from one point of the window to another.

        Args:
            from_x: pixels from the left, where the button is pressed.
            from_y: pixels from the top.
            to_x: pixels from the left, where it is let go.
            to_y: pixels from the top.
        """
        return await self._after(self.browser.draw(from_x, from_y, to_x, to_y))

    # -- the verdict, and the rest ----------------------------------------------------------------------------------

    def judge(self) -> Score:
        """Score the page's own verdict; an episode that the page has not ended is a failure."""
        violations = tuple(f"left the page: {one}" for one in self.browser.violations)
        return Score(self.over and self.raw > 0, violations=violations)

    def reward(self, score: Score) -> float:
        """Return 1 for success and 0 otherwise, or the page's raw reward."""
        return self.raw if self.paid == "raw" else float(score.success)

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: a script that ends the page with reward 1, and reloading until an easy page comes."""
        return NEAR_MISSES

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return hostile inputs: every key and mouse button everywhere, extreme texts, and buttons held down."""
        return attacks_on(list(self.page.by_id))

    def state_key(self) -> str:
        """Return a key for the visible page and the verdict."""
        return str(stable_hash(self.page.text, self.over, self.raw).hex()[:32])
