"""The result of one action, with constructors that make illegal results hard to write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ..errors import ContractError
from ..tasks.score import Score
from .messages import Observation, ObservationLike
from .plain_json import not_json

OUT_OF_TURNS = "out_of_turns"
"""Key of ``info`` that is true if a turn limit ended the episode: the task's or the run's."""
CHANGES = "changes"
"""Key of ``info`` for the rows of a world that the turn changed, one line each; absent if there are none."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of an action.

    Args:
        observation: the new messages, also as text, a message or a list of them.
        reward: finite.
        terminated: the task ended, solved, failed or out of turns: there is no next state to value.
        truncated: something outside the task (a limit of the run) ended the episode: the next state has a value.
        score: the score, on the last step; when omitted, ``judge()`` returns it.
        info: anything JSON-able worth recording.
    """

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    score: Score | None = None
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Written out, a step may have text; tw.running and its kin convert it themselves.
        object.__setattr__(self, "observation", Observation.of(self.observation))
        reward: object = self.reward
        if not isinstance(reward, Real) or not math.isfinite(reward):
            raise ContractError(f"reward {reward!r:.80} is not a finite number; return a float such as 0.0 or 1.0")
        if not isinstance(self.score, Score | None):
            raise ContractError(f"score {self.score!r:.80} is not a tw.Score; write tw.Score(success=...), or omit it")
        if self.info and (found := not_json(self.info)):
            raise ContractError(f"the info of a step is not JSON: {found}; record text, numbers, lists and dicts only")
        if self.terminated and self.truncated:
            raise ContractError("a step is terminated (the task ended) or truncated (a limit stopped it), never both")
        if self.score is not None and not (self.terminated or self.truncated):
            raise ContractError("a step that does not end the episode cannot carry a score")

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated


def running(observation: ObservationLike, reward: float = 0.0, **info: Any) -> Step:
    """Continue the episode."""
    return Step(Observation.of(observation), reward, info=info)


def success(observation: ObservationLike, reward: float = 1.0, **info: Any) -> Step:
    """End the task as solved."""
    return Step(Observation.of(observation), reward, terminated=True, score=Score(success=True), info=info)


def failure(observation: ObservationLike, reward: float = 0.0, **info: Any) -> Step:
    """End the task unsolved."""
    return Step(Observation.of(observation), reward, terminated=True, score=Score(success=False), info=info)


def termination(observation: ObservationLike, reward: float, score: Score, **info: Any) -> Step:
    """End the task with a score."""
    return Step(Observation.of(observation), reward, terminated=True, score=score, info=info)


def truncation(observation: ObservationLike, reward: float = 0.0, **info: Any) -> Step:
    """End the episode by a limit outside of the task; the state still has a value."""
    return Step(Observation.of(observation), reward, truncated=True, info=info)
