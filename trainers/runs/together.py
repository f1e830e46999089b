"""A run of many processes: the first plays, evaluates and writes; all of them learn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...agents.policy import Completion
from ...errors import InfrastructureError
from ..learning.parallel import World
from .model_files import ModelFiles
from .weights import Canary, Probe, Updatable, logprobs_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Found(Generic[T]):
    """What the leading process says: what it found out, or that it was stopped."""

    value: T | None = None
    stopped: str = ""
    interrupted: bool = False


async def led(world: World, act: Callable[[], Awaitable[T]]) -> T:
    """What process 0 finds out, in every process.

    Whatever takes time and can be interrupted happens in here; between two calls, all processes do the same. So when
    process 0 is stopped, each of the others is waiting here to be told, and all stop at the same place.

    Args:
        world: the processes.
        act: is awaited in process 0 only.

    Raises:
        KeyboardInterrupt: process 0 was interrupted (raised in the others, which pay no attention to signals).
        InfrastructureError: process 0 failed (raised in the others).
    """
    if world.leads:
        try:
            value = await act()
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            world.told(_Found(stopped=f"{type(error).__name__}: {error}", interrupted=cancelled))
            raise
        world.told(_Found(value))
        return value
    heard: _Found[T] = world.told()
    if heard.interrupted:
        raise KeyboardInterrupt
    if heard.stopped:
        raise InfrastructureError(f"process 0 stopped: {heard.stopped}")
    return heard.value  # type: ignore[return-value]


class Gathered:
    """The policy, in process 0, samples from a whole copy of a model that the processes share out.

    Args:
        policy: samples from a model of its own in process 0; ``None`` elsewhere.
        model: the learner's, sharded.
        files: gathers its weights.
        probe: what the canary asks.
    """

    def __init__(self, policy: Updatable | None, model: Any, files: ModelFiles, probe: Probe) -> None:
        self.policy = policy
        self.model = model
        self.files = files
        self.probe = probe
        self.canary = Canary(policy, model, probe) if policy is not None else None

    async def send(self, version: int) -> None:
        weights = self.files.weights(self.model)

        async def arrive() -> Completion:
            assert self.policy is not None
            assert self.canary is not None
            self.policy.update(weights, version)
            return await self.canary.ask(version)

        answer = await led(self.files.world, arrive)
        mine = logprobs_of(self.model, self.probe.prompt_ids, answer.token_ids)

        async def judge() -> None:
            assert self.canary is not None
            self.canary.judge(version, answer, mine)

        await led(self.files.world, judge)
