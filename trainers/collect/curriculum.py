"""Curricula: draw tasks of the kinds at which the policy succeeds sometimes, by its measured success.

A kind is a level, or a level and a template. Groups of attempts that all succeed or all fail teach nothing. Two
attempts differ with probability ``2p(1 − p)``, so tasks of intermediate difficulty are worth most (Foster et al.,
"Learning to Reason at the Frontier of Learnability", arXiv 2502.12272). Prompt Curriculum Learning (arXiv 2510.01135)
predicts p of each prompt by a value model; here p is measured for each kind, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal

import pydantic

from ...config import Config
from ...errors import UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng
from ...tasks.spec import Split, TaskSpec
from ..learning.groups import Group
from .sampler import TaskSampler

Kind = tuple[int, str | None]
"""A level, and a template; ``None`` for all of them."""


class Curriculum(Config):
    """Settings of a curriculum. Success p of a kind is ``(solved + 1) / (attempts + 2)``, where older steps fade."""

    rule: Literal["intermediate", "ladder"] = "intermediate"
    """``intermediate``: kinds in proportion to p(1 − p), the chance that two attempts differ. ``ladder``: the lowest
    level that is not ``mastered``, and uniformly those below it as often as ``floor`` says."""
    by: Literal["level", "template"] = "level"
    """Whether kinds are levels, or templates of levels."""
    floor: float = pydantic.Field(default=0.1, ge=0, le=1)
    """Share of tasks that are drawn uniformly over the kinds (``ladder``: those up to the present level)."""
    memory: float = pydantic.Field(default=0.9, ge=0, le=1)
    """Share of the counts that is kept from one step to the next."""
    mastered: float = pydantic.Field(default=0.8, gt=0, lt=1)
    """Success of a level above which the ``ladder`` takes the next."""

    @pydantic.model_validator(mode="after")
    def _levels_are_rungs(self) -> Curriculum:
        if self.rule == "ladder" and self.by == "template":
            raise ValueError("rule = ladder climbs levels, and templates have no order: set by = level")
        return self

    def shares(self, kinds: Sequence[Kind], success: Sequence[float]) -> list[float]:
        """Return the probability of each kind.

        Args:
            kinds: all kinds, in ascending order.
            success: measured p of each.
        """
        if self.rule == "ladder":
            open_to = next((rung for rung, p in enumerate(success) if p <= self.mastered), len(kinds) - 1)
            uniform = [float(rung <= open_to) / (open_to + 1) for rung in range(len(kinds))]
            chosen = [float(rung == open_to) for rung in range(len(kinds))]
        else:
            uniform = [1 / len(kinds)] * len(kinds)
            worth = [p * (1 - p) for p in success]
            chosen = [each / sum(worth) for each in worth]
        return [self.floor * u + (1 - self.floor) * c for u, c in zip(uniform, chosen, strict=True)]


class CurriculumSampler(TaskSampler):
    """Draws tasks by a curriculum. The task at a position is a function of the position and of the counts so far.

    Counts change only between steps (``observe``), and checkpoints keep them, so a resumed step draws the same tasks.
    Within a kind all tasks are equally likely; without ``max_tasks``, every one is new as long as the family has seeds.

    Args:
        family: family that generates the tasks.
        curriculum: settings.
        split: split of the family.
        levels: levels to draw from (default: the family's usual ones).
        max_tasks: number of different tasks, divided evenly among the kinds.
        seed: seed of the draws.

    Raises:
        UsageError: there is only one kind, or fewer tasks than kinds.
    """

    def __init__(
        self,
        family: TaskFamily[Any],
        curriculum: Curriculum,
        *,
        split: Split | str = Split.TRAIN,
        levels: Sequence[int] | None = None,
        max_tasks: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(family, split=split, levels=levels, max_tasks=max_tasks, seed=seed)
        self.curriculum = curriculum
        templates: Sequence[str | None] = (None,) if curriculum.by == "level" else family.templates(self.split)
        self.kinds: list[Kind] = list(product(sorted(set(self.levels)), templates))
        self.each = family.seeds if max_tasks is None else max_tasks // len(self.kinds)
        if len(self.kinds) < 2 or self.each == 0:
            raise UsageError(
                f"a curriculum chooses among kinds of tasks, and {family.name!r} offers {len(self.kinds)} here "
                f"(by = {curriculum.by}, max_tasks = {max_tasks}): name more levels, raise max_tasks, or leave "
                "curriculum out"
            )
        self._solved, self._attempts = ([0.0] * len(self.kinds) for _ in range(2))

    @property
    def success(self) -> list[float]:
        """Measured success of each kind; a half before anything is known."""
        return [(solved + 1) / (count + 2) for solved, count in zip(self._solved, self._attempts, strict=True)]

    @property
    def shares(self) -> list[float]:
        """Present probability of each kind."""
        return self.curriculum.shares(self.kinds, self.success)

    def at(self, position: int) -> TaskSpec:
        """Return the task at a position, under the present probabilities."""
        rng = Rng("curriculum", self.seed, position)
        left, shares = rng.random(), self.shares
        kind = max(number for number, share in enumerate(shares) if share > 0)
        for number, share in enumerate(shares):
            left -= share
            if left < 0:
                kind = number
                break
        level, template = self.kinds[kind]
        number = position if self.each is None else rng.randrange(self.each)
        return self.family.spec(number, split=self.split, level=level, template=template)

    def observe(self, groups: Sequence[Group]) -> None:
        """Count the attempts of a step; those that the policy did not finish are failures."""
        place = {kind: number for number, kind in enumerate(self.kinds)}
        self._solved = [self.curriculum.memory * count for count in self._solved]
        self._attempts = [self.curriculum.memory * count for count in self._attempts]
        for group in groups:
            for episode in (*group.members, *group.failed):
                template = episode.task.template if self.curriculum.by == "template" else None
                number = place.get((episode.task.level, template))
                if number is None:  # restarted from a stored episode, of a kind that is not drawn here
                    continue
                self._attempts[number] += 1
                self._solved[number] += episode.trainable and episode.success

    def metrics(self) -> dict[str, float]:
        """Return share and success of each kind."""
        names = [str(level) if template is None else f"{level}-{template}" for level, template in self.kinds]
        found = {f"curriculum/share/{name}": share for name, share in zip(names, self.shares, strict=True)}
        return found | {f"curriculum/success/{name}": p for name, p in zip(names, self.success, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {"solved": list(self._solved), "attempts": list(self._attempts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self._solved, self._attempts = list(state["solved"]), list(state["attempts"])
