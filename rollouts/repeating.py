"""Repeat recorded actions on another environment, to reach the state in which an attempt failed."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from ..envs.messages import Observation
from ..tasks.spec import TaskSpec
from .episode import Turn
from .hosts import Host


class Timed(Protocol):
    """Awaits a call of an environment within its time limit."""

    async def __call__(self, call: Awaitable[Any], verb: str) -> Any:
        """Return the result of the call."""


async def repeated(turns: Sequence[Turn], last: Observation, task: TaskSpec, host: Host, timed: Timed) -> bool:
    """Repeat recorded actions, and return whether the environment answers as recorded; it is then in the final state.

    Args:
        turns: recorded turns.
        last: observation after them.
        task: specification of the task.
        host: host of another environment.
        timed: waits for the environment within its time limit.
    """
    observation, info = await timed(host.reset(task), "reset")
    for turn in turns:
        if not turn.sent:
            continue
        if observation != turn.observation or info.get("obs_key") != turn.obs_key:
            return False
        observation, *said, info = await timed(host.step(turn.action), "step")
        if said != [turn.reward, turn.terminated, turn.truncated]:
            return False
    return bool(observation == last)
