"""Which tasks are trained on, in which order: a pure function of a seed and a cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from ...envs.base import TurnEnv
from ...envs.registry import make
from ...envs.tools import Tool
from ...errors import UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng
from ...tasks.spec import Split, TaskSpec


def held_out(family: TaskFamily[Any], split: Split, levels: Sequence[int] | None, count: int) -> list[TaskSpec]:
    """Return the tasks of the evaluations while training, always the same.

    Args:
        family: where tasks come from.
        split: ``eval.split``.
        levels: which; the family's usual ones when omitted.
        count: ``eval.episodes``.

    Raises:
        UsageError: the family has no such split.
    """
    if count and split not in family.splits:
        raise UsageError(
            f"eval.split is {split!s}, and family {family.name!r} has only {', '.join(family.splits)}: set eval.split "
            "to one of these, or eval.episodes=0 to train without evaluations"
        )
    return TaskSampler(family, split=split, levels=levels).peek(count) if count else []


class TaskSampler:
    """Draws tasks of a family without end.

    With a pool of P tasks, each pass takes all of them in a new order; without one, every task is new as long as
    the family has seeds. The position is one number, so a checkpoint can hold it, and drawing the same positions
    again gives the same tasks.

    Args:
        family: where tasks come from.
        split: which part of it.
        levels: taken in turn; the family's usual ones when omitted.
        pool: how many different tasks there are; ``None`` for as many as the family can generate.
        seed: of the order.

    Raises:
        UsageError: an empty pool, or no levels.
    """

    def __init__(
        self,
        family: TaskFamily[Any],
        *,
        split: Split | str = Split.TRAIN,
        levels: Sequence[int] | None = None,
        pool: int | None = None,
        seed: int = 0,
    ) -> None:
        if pool is not None and pool < 1:
            raise UsageError(f"a pool of {pool} tasks leaves nothing to train on")
        if levels is not None and not levels:
            raise UsageError("no levels are named; omit them to take all that the family has")
        self.family = family
        self.split = Split(split)
        self.levels = tuple(levels) if levels is not None else family.usual
        self.pool = pool if pool is not None else family.seeds
        self.seed = seed
        self.cursor = 0
        self._pass: tuple[int, list[int]] = (-1, [])

    def draw(self, count: int) -> list[TaskSpec]:
        """The next ``count`` tasks."""
        tasks = [self.at(self.cursor + i) for i in range(count)]
        self.cursor += count
        return tasks

    def peek(self, count: int) -> list[TaskSpec]:
        """What ``draw`` would give, without moving on."""
        return [self.at(self.cursor + i) for i in range(count)]

    def at(self, position: int) -> TaskSpec:
        """The task at a position, wherever the cursor is."""
        number = position
        if self.pool is not None:
            turn, place = divmod(position, self.pool)
            if self._pass[0] != turn:
                order = list(range(self.pool))
                Rng("sampler", self.seed, turn).shuffle(order)
                self._pass = (turn, order)
            number = self._pass[1][place]
        level = self.levels[number % len(self.levels)]
        return self.family.spec(number // len(self.levels), split=self.split, level=level)


def round_seed(purpose: Literal["train", "eval", "demonstrations"], seed: int, step: int = 0) -> int:
    """The runner's seed for one round: episodes and their randomness follow from run seed and step alone."""
    return Rng("round", purpose, seed, step).getrandbits(31)


def family_and_tools(env_id: str, env_kwargs: Mapping[str, Any]) -> tuple[TaskFamily[Any], tuple[Tool, ...]]:
    """Where an environment's tasks come from, and the tools that it offers before an episode begins."""
    env = make(env_id, **env_kwargs)
    try:
        inside = cast(TurnEnv, env.unwrapped)
        return inside.tasks(), tuple(inside.tools)
    finally:
        env.close()
