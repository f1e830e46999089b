"""Environments whose tasks have their own turn limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base import TaskT, TurnEnv
from ..messages import ActionLike
from .attacks import attacks_on


class PacedEnv(TurnEnv[TaskT]):
    """A ``TurnEnv`` whose ``start`` calls ``pace`` with the task's turn limit; ``max_turns=`` overrides every task.

    The class's own ``max_turns`` is that of its longest task, for planning before there is a task.
    """

    def __init__(self, *, max_turns: int | None = None, render_mode: str | None = None) -> None:
        super().__init__(max_turns=max_turns, render_mode=render_mode)
        self._overruled = max_turns

    def pace(self, turns: int) -> None:
        """End this episode after ``turns`` actions, unless the constructor set another limit."""
        self.max_turns = self._overruled or turns

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return hostile inputs: valid answers in changed form, and texts that no game should accept."""
        return attacks_on(self)
