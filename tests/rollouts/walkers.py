"""An agent whose policy is a table and whose sessions fork, and a world that counts what is done to it."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.envs.messages import Observation
from turnwise.tasks.family import SeededFamily

Table = Callable[[str], Mapping[str, float]]
"""From what is observed to the probability of each word."""


@dataclass
class Walker:
    """Says words by a table; its tokens are such that no two actions are ever the same.

    Args:
        table: the policy.
        slow: awaited before each action, given the observation: who is fast depends on it.
    """

    table: Table
    slow: Callable[[str], Awaitable[None]] | None = None
    requests: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    """(policy session, prompt, action) in order."""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(10_000))
    acting: int = 0
    most: int = 0

    def start(self, context: EpisodeContext) -> Walk:
        return Walk(self, context, ())


class Walk:
    def __init__(self, agent: Walker, context: EpisodeContext, history: tuple[int, ...]) -> None:
        self.agent, self.context, self.history = agent, context, history

    def fork(self, context: EpisodeContext) -> Walk:
        return type(self)(self.agent, context, self.history)

    def recall(self, turns: Sequence[tuple[Observation, Decision]]) -> None:
        for observation, decision in turns:
            ids = decision.action_ids or tuple(decision.action.text.encode())
            self.history = (*self.history, *observation.text.encode(), *ids)

    async def act(self, observation: Observation) -> Decision:
        agent = self.agent
        agent.acting += 1
        agent.most = max(agent.most, agent.acting)
        if agent.slow is not None:
            await agent.slow(observation.text)
        agent.acting -= 1
        chances = agent.table(observation.text)
        (word,) = self.context.rng.choices(list(chances), list(chances.values()))
        prompt = (*self.history, *observation.text.encode())
        ids = (list(chances).index(word), next(agent.numbers))
        self.history = prompt + ids
        agent.requests.append((self.context.policy_session, prompt, ids))
        return Decision(tw.Action(word), prompt, ids, (math.log(chances[word]), 0.0), (0, 0))


def evenly(observation: str) -> dict[str, float]:
    """Left or right, whatever is seen."""
    return {"left": 0.5, "right": 0.5}


class Road(tw.TurnEnv):
    """``length`` turns of going left or right, paid by a third for each right one; it tells what was done so far."""

    blocking = False
    length: ClassVar[int] = 4
    steps: ClassVar[list[str]]
    made: ClassVar[list[Road]]
    closed: ClassVar[list[Road]]
    trouble: ClassVar[Callable[[Road], Any] | None]
    """Called before each step; it may raise."""
    fork_trouble: ClassVar[Callable[[Road], Any] | None]

    @classmethod
    def tasks(cls) -> SeededFamily:
        return SeededFamily("Road")

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.said: list[str] = []
        return f"road {task.seed}"

    def act(self, action: tw.Action) -> tw.Step:
        if type(self).trouble is not None:
            type(self).trouble(self)  # type: ignore[misc]
        self.said.append(action.text)
        self.steps.append(" ".join(self.said))
        if self.turn == self.length:
            return tw.success("the end", reward=self.said.count("right") / 4)
        return tw.running(f"after {' '.join(self.said)}", reward=(action.text == "right") / 8)

    def fork(self) -> Self:
        if type(self).fork_trouble is not None:
            type(self).fork_trouble(self)  # type: ignore[misc]
        twin = super().fork()
        self.made.append(twin)
        return twin

    def close(self) -> None:
        self.closed.append(self)


def road(
    trouble: Callable[[Road], Any] | None = None, fork_trouble: Callable[[Road], Any] | None = None, turns: int = 4
) -> type[Road]:
    """A road of its own for each test."""

    class Mine(Road):
        length = turns

    Mine.steps, Mine.made, Mine.closed = [], [], []
    Mine.trouble = staticmethod(trouble) if trouble is not None else None
    Mine.fork_trouble = staticmethod(fork_trouble) if fork_trouble is not None else None
    Mine.__qualname__ = "Road"
    return Mine


def tasks(count: int) -> list[tw.TaskSpec]:
    return [Road.tasks().spec(seed) for seed in range(count)]


async def now_and_then(observation: str) -> None:
    """Wait a little, longer for some observations than for others."""
    await asyncio.sleep(0.001 * (len(observation) % 5))


def perfect_cache(requests: Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> int:
    """How many prompt tokens a cache serves that keeps all it was ever shown, per session, by brute force."""
    known: dict[str, set[tuple[int, ...]]] = {}
    served = 0
    for session, prompt, action in requests:
        mine = known.setdefault(session, set())
        served += max((n for n in range(len(prompt)) if prompt[:n] in mine), default=0)
        read = prompt + action[:-1]
        mine.update(read[:n] for n in range(1, len(read) + 1))
    return served
