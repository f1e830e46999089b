"""The choice and order of training tasks: a pure function of a seed and a cursor."""

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
from ..learning.groups import Group


def held_out(family: TaskFamily[Any], split: Split, levels: Sequence[int] | None, count: int) -> list[TaskSpec]:
    """Return the tasks of the evaluations while training, always the same.

    Args:
        family: family that generates the tasks.
        split: ``eval.split``.
        levels: levels of the tasks (default: the family's usual ones).
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
    """Draws an endless sequence of tasks from a family.

    With ``max_tasks``, each pass takes all of them in a new order. Without it, every task is new as long as the
    family has seeds. The position is one number, which a checkpoint can store, and the same positions give the same
    tasks again.

    Args:
        family: family that generates the tasks.
        split: split of the family.
        levels: levels taken in turn (default: the family's usual ones).
        max_tasks: number of different tasks; ``None`` for as many as the family can generate.
        seed: seed of the order.

    Raises:
        UsageError: ``max_tasks`` is below 1, there are no levels, or the family has no such split.
    """

    def __init__(
        self,
        family: TaskFamily[Any],
        *,
        split: Split | str = Split.TRAIN,
        levels: Sequence[int] | None = None,
        max_tasks: int | None = None,
        seed: int = 0,
    ) -> None:
        if max_tasks is not None and max_tasks < 1:
            raise UsageError(f"max_tasks = {max_tasks} leaves nothing to train on")
        if levels is not None and not levels:
            raise UsageError("no levels are named; omit them to take all that the family has")
        self.family = family
        self.split = Split(split)
        if self.split not in family.splits:
            raise UsageError(
                f"split is {self.split!s}, and family {family.name!r} has only {', '.join(family.splits)}: set split "
                "to one of these"
            )
        self.levels = tuple(levels) if levels is not None else family.usual
        self.max_tasks = max_tasks if max_tasks is not None else family.seeds
        self.seed = seed
        self.cursor = 0
        self._pass: tuple[int, list[int]] = (-1, [])

    def draw(self, count: int) -> list[TaskSpec]:
        """Return the next ``count`` tasks."""
        tasks = [self.at(self.cursor + i) for i in range(count)]
        self.cursor += count
        return tasks

    def peek(self, count: int) -> list[TaskSpec]:
        """Return the tasks that ``draw`` would return, without moving the cursor."""
        return [self.at(self.cursor + i) for i in range(count)]

    def at(self, position: int) -> TaskSpec:
        """Return the task at a position, independent of the cursor."""
        number = position
        if self.max_tasks is not None:
            turn, place = divmod(position, self.max_tasks)
            if self._pass[0] != turn:
                order = list(range(self.max_tasks))
                Rng("sampler", self.seed, turn).shuffle(order)
                self._pass = (turn, order)
            number = self._pass[1][place]
        level = self.levels[number % len(self.levels)]
        return self.family.spec(number // len(self.levels), split=self.split, level=level)

    def observe(self, groups: Sequence[Group]) -> None:
        """Note the episodes of a finished step; a curriculum draws other tasks from then on."""

    def metrics(self) -> dict[str, float]:
        """Return numbers to log with a step."""
        return {}


def round_seed(purpose: Literal["train", "eval", "demonstrations"], seed: int, step: int = 0) -> int:
    """Return the runner's seed for one round, so that its randomness follows from run seed and step alone."""
    return Rng("round", purpose, seed, step).getrandbits(31)


def family_and_tools(env_id: str, env_kwargs: Mapping[str, Any]) -> tuple[TaskFamily[Any], tuple[Tool, ...]]:
    """Return the task family of an environment, and the tools that it offers before an episode begins."""
    env = make(env_id, **env_kwargs)
    try:
        inside = cast(TurnEnv, env.unwrapped)
        return inside.tasks(), tuple(inside.tools)
    finally:
        env.close()
