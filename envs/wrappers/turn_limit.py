"""``TurnLimit``: a limit that the run sets, and not the task."""

from __future__ import annotations

from typing import Any

import gymnasium

from ...errors import UsageError
from ..messages import ActionLike
from ..step import OUT_OF_TURNS
from .base import Judging, Stepping, Steps, TurnWrapper


class TurnLimit(TurnWrapper):
    """Truncate the episode after ``max_turns`` actions, and judge it then.

    The task does not end there, so a critic values the state in which the episode stopped. The environment's own limit
    stays in force: whichever is reached first ends the episode.

    Args:
        env: the environment.
        max_turns: the largest number of turns; at least 1.

    Raises:
        UsageError: there would be no turn to act in.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], max_turns: int) -> None:
        super().__init__(env, max_turns=max_turns)
        if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 1:
            raise UsageError(f"a turn limit must be an integer of at least 1; got {max_turns!r}")
        self._limit = max_turns

    @property
    def max_turns(self) -> int:
        """Most actions of an episode."""
        return min(self._limit, int(self.env.get_wrapper_attr("max_turns")))

    @property
    def max_turns_truncates(self) -> bool:
        """Whether the lower one of the two limits truncates."""
        own: bool = self.env.get_wrapper_attr("max_turns_truncates")
        return own or self._limit < int(self.env.get_wrapper_attr("max_turns"))

    def stepping(self, action: ActionLike) -> Steps:
        """Take one action, and truncate at the limit."""
        observation, reward, terminated, truncated, info = yield Stepping(action)
        if self.turn >= self._limit and not terminated and not truncated:
            score = yield Judging()
            info = {**info, "score": score, "success": score.success, OUT_OF_TURNS: True}
            truncated = True
        return observation, reward, terminated, truncated, info
