"""``History``: the last turns, repeated in every observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium

from ...errors import UsageError
from ..contract import Contract
from ..messages import Action, ActionLike, Message, Observation
from .base import Resets, Resetting, Stepping, Steps, TurnWrapper
from .observation_budget import cut

LONGEST = 2_000
"""Most characters of a repeated action; a longer one loses its middle, with a mark."""


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
            raise UsageError(f"a history must have at least one turn; got {turns}")
        self._turns = turns
        self._past: tuple[tuple[Message, ...], ...] = ()
        self._present: tuple[Message, ...] = ()

    @property
    def contract(self) -> Contract:
        """The environment's contract, where each repeated turn may be as long as the current one."""
        inner: Contract = super().contract
        one = inner.max_observation_chars
        return replace(inner, max_observation_chars=one + self._turns * (one + LONGEST))

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Start an episode with an empty history."""
        observation, info = yield Resetting(seed, options)
        self._past, self._present = (), observation.messages
        return observation, info

    def stepping(self, action: ActionLike) -> Steps:
        """Take one action, and put the history before the next observation."""
        observation, *rest = yield Stepping(action)
        said = Action.of(action).message
        if len(said.text) > LONGEST:
            said = said.with_text(cut(said.text, LONGEST) or "")
        pair = (*self._present, said)
        self._past = (*self._past, pair)[-self._turns :] if self._turns else ()
        self._present = observation.messages
        earlier = tuple(message for turn in self._past for message in turn)
        return Observation((*earlier, *observation.messages)), *rest
