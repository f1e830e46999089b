"""``History``: the last turns, repeated in every observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from ...errors import UsageError
from ..messages import Action, ActionLike, Message, Observation
from .base import Resets, Resetting, Stepping, Steps, TurnWrapper


class History(TurnWrapper):
    """Put the last ``turns`` pairs of observation and action before each observation.

    For agents without a memory of their own; an agent that keeps its transcript would read everything twice.

    Args:
        env: the environment.
        turns: how many pairs; 0 changes nothing.

    Raises:
        UsageError: ``turns`` is negative.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], turns: int) -> None:
        super().__init__(env, turns=turns)
        if turns < 0:
            raise UsageError(f"a history of {turns} turns is not possible")
        self._turns = turns
        self._past: tuple[tuple[Message, ...], ...] = ()
        self._present: tuple[Message, ...] = ()

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Forget everything."""
        observation, info = yield Resetting(seed, options)
        self._past, self._present = (), observation.messages
        return observation, info

    def stepping(self, action: ActionLike) -> Steps:
        """Remember the turn, and put it before what comes next."""
        observation, *rest = yield Stepping(action)
        pair = (*self._present, Action.of(action).message)
        self._past = (*self._past, pair)[-self._turns :] if self._turns else ()
        self._present = observation.messages
        earlier = tuple(message for turn in self._past for message in turn)
        return Observation((*earlier, *observation.messages)), *rest
