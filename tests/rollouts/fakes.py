"""Environments and agents with one fault each, written by hand."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext, Session
from turnwise.envs.messages import Observation


def tasks(n: int, family: str = "Count", **fields: Any) -> list[tw.TaskSpec]:
    """``n`` tasks with seeds 0, 1, …"""
    return [tw.TaskSpec(family, seed=seed, **fields) for seed in range(n)]


class Count(tw.TurnEnv):
    """Solved by ``length`` turns; each observation says which turn it is, and a number that only the task knows."""

    blocking = False
    opened: ClassVar[list[Count] | None] = None
    """Subclasses that give lists here are watched."""
    closed: ClassVar[list[Count] | None] = None

    def __init__(self, length: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.length = length
        if self.opened is not None:
            self.opened.append(self)

    @classmethod
    def tasks(cls) -> Any:
        from turnwise.tasks.family import SeededFamily

        return SeededFamily("Count")

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        self.secret = rng.randrange(1000)
        self.said: list[str] = []
        return f"begin {self.secret}"

    def act(self, action: tw.Action) -> Any:
        self.said.append(action.text)
        if self.turn == self.length:
            return tw.success("done", 1.0)
        return tw.running(f"turn {self.turn} of {self.secret}", reward=0.125, heard=action.text)

    def state_key(self) -> str | None:
        return f"{self.turn}"

    def oracle(self) -> tw.Action:
        return tw.Action(f"best {self.turn}")

    def random_action(self, rng: tw.Rng) -> tw.Action:
        return tw.Action(f"random {rng.randrange(10**6)}")

    def close(self) -> None:
        if self.closed is not None:
            self.closed.append(self)


class BlockingCount(Count):
    """The same, and it says that it may block."""

    blocking = True


Fault = Callable[["Count"], Any]


def faulty(plan: dict[int, list[tuple[int, Fault]]], base: type[Count] = Count, **kwargs: Any) -> Callable[..., Count]:
    """A factory of environments that play ``plan``: per task seed, a (turn, fault) for each attempt in order.

    Turn 0 is the reset. A list that is used up means no fault.
    """
    left = {seed: list(faults) for seed, faults in plan.items()}

    class Faulty(base):  # type: ignore[misc, valid-type]
        fault: tuple[int, Fault] | None = None

        async def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
            faults = left.get(task.seed)
            self.fault = faults.pop(0) if faults else None
            if self.fault and self.fault[0] == 0:
                await self.strike()
            return super().start(task, rng)

        async def act(self, action: tw.Action) -> Any:
            if self.fault and self.fault[0] == self.turn:
                await self.strike()
            return super().act(action)

        async def strike(self) -> None:
            assert self.fault
            happened = self.fault[1](self)
            if isinstance(happened, Awaitable):
                await happened

    def make(**more: Any) -> Count:
        return Faulty(**kwargs, **more)

    make.kind = Faulty  # type: ignore[attr-defined]
    return make


def raises(env: Count) -> None:
    """The environment has a bug."""
    raise ZeroDivisionError("the world divided by zero")


async def hangs(env: Count) -> None:
    """The environment awaits what never comes."""
    await asyncio.Event().wait()


async def cancels(env: Count) -> None:
    """Something inside the environment was cancelled by itself."""
    raise asyncio.CancelledError


class BlocksForever(BlockingCount):
    """Hangs in its thread at the second turn of task 0, until the test lets go."""

    let_go: ClassVar[threading.Event]
    opened: ClassVar[list[Count] | None] = []
    closed: ClassVar[list[Count] | None] = []

    def act(self, action: tw.Action) -> Any:
        if self.task.seed == 0 and self.turn == 2:
            self.let_go.wait(60)
        return super().act(action)


def deadly(marker: Path, how: str) -> Callable[..., tw.TurnEnv]:
    """A factory of environments whose process dies in the second turn, unless ``marker`` was left by an earlier one."""
    mark = str(marker)

    class Deadly(tw.TurnEnv):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return "begin"

        def act(self, action: tw.Action) -> Any:
            if self.turn == 2 and not os.path.exists(mark):
                if how != "always":
                    open(mark, "w").close()
                if how == "signal":
                    os.kill(os.getpid(), 9)
                os._exit(7)
            return tw.success("done") if self.turn == 3 else "on"

    return Deadly


class FakeAgent:
    """An agent made of one coroutine function ``act(context, turn, observation) -> Decision``."""

    def __init__(self, act: Callable[[EpisodeContext, int, Observation], Awaitable[Decision]]) -> None:
        self.act = act
        self.contexts: list[EpisodeContext] = []

    def start(self, context: EpisodeContext) -> Session:
        self.contexts.append(context)
        return _FakeSession(self, context)


class _FakeSession:
    def __init__(self, agent: FakeAgent, context: EpisodeContext) -> None:
        self.agent, self.context, self.turn = agent, context, 0

    async def act(self, observation: Observation) -> Decision:
        self.turn += 1
        return await self.agent.act(self.context, self.turn, observation)


async def answer(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
    """A decision with tokens, as a language model would make it."""
    return Decision(
        tw.Action(f"answer {turn}"),
        prompt_ids=(1, 2, turn),
        action_ids=(7, turn),
        logprobs=(-0.5, -0.25),
        versions=(3, 3),
        seconds=0.001,
    )


def answering() -> FakeAgent:
    """An agent without faults."""
    return FakeAgent(answer)


class HoldingAgent(FakeAgent):
    """Answers, and records how its sessions learned that their episodes ended; it drafts every answer."""

    def __init__(
        self, act: Callable[[EpisodeContext, int, Observation], Awaitable[Decision]], next_ids: tuple[int, ...] = ()
    ) -> None:
        super().__init__(act)
        self.next_ids = next_ids
        self.ends: list[str] = []

    def start(self, context: EpisodeContext) -> Session:
        return _HoldingSession(self, context)


class _HoldingSession(_FakeSession):
    agent: HoldingAgent

    async def act(self, observation: Observation) -> Decision:
        draft = Decision(tw.Action("draft"), (1, 2), (5,), (-0.1,), (3,))
        self.context.record(Observation.of("think first"), draft)
        return await super().act(observation)

    async def over(self, observation: Observation) -> tuple[int, ...]:
        self.agent.ends.append(f"over: {observation.text}")
        return self.agent.next_ids

    async def close(self) -> None:
        self.agent.ends.append("closed")
