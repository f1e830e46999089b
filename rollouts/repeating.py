"""Repeating recorded actions on another environment, to come to where an attempt failed."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from ..envs.messages import Observation
from ..tasks.spec import TaskSpec
from .episode import Turn
from .hosts import Host


class Timed(Protocol):
    """Waits for an environment no longer than it may take."""

    async def __call__(self, call: Awaitable[Any], verb: str) -> Any:
        """What the call returns."""


async def repeated(turns: Sequence[Turn], last: Observation, task: TaskSpec, host: Host, timed: Timed) -> bool:
    """Whether an environment answers the recorded actions of a task as it is recorded; it is then where they led.

    Args:
        turns: what was recorded.
        last: the observation after them.
        task: what was asked.
        host: another environment.
        timed: waits for it.
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
