"""Dynamic sampling: drop groups without a learning signal, and draw further tasks in their place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

import pydantic

from ...config import Config
from ..learning.groups import Group, with_failures
from .collect import Collected


class DynamicSampling(Config):
    """Filter of the groups that a step learns from, and the number of rounds to find them."""

    max_rounds: int = pydantic.Field(default=0, ge=0)
    """Rounds of drawing tasks for a step at most, until enough groups have a signal; 0 keeps every group."""
    max_pass_rate: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Largest success rate of a group that is kept (ScaleRL, arXiv 2510.13786, leaves out tasks from 0.9 on). Set
    ``max_rounds`` with it."""

    @pydantic.model_validator(mode="after")
    def _filters(self) -> Self:
        if self.max_pass_rate < 1 and not self.max_rounds:
            raise ValueError(
                f"max_pass_rate = {self.max_pass_rate:g} leaves out groups, and max_rounds = 0 keeps every group: set "
                "max_rounds = 1, or more to draw other tasks in their place"
            )
        return self

    def teaches(self, group: Group) -> bool:
        """Whether returns differ, failures of the policy included, and not too many attempts succeeded."""
        (whole,) = with_failures([group])
        passed = sum(episode.success for episode in whole.members)
        return whole.differs and passed <= self.max_pass_rate * len(whole.members)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The data that a step learns from.

    Args:
        groups: kept groups, in the order in which their tasks were drawn.
        tasks: number of drawn tasks.
        collected: all episodes, dropped groups included, so that returns and success are reported for all of them.
        rounds: number of rounds of drawing.
    """

    groups: tuple[Group, ...]
    tasks: int
    collected: Collected
    rounds: int = 1

    def metrics(self) -> dict[str, float]:
        """Numbers of all episodes, and the share that was dropped."""
        return self.collected.metrics() | {
            "groups": float(len(self.groups)),
            "groups_dropped": float(len(self.collected.groups) - len(self.groups)),
            "tasks_drawn": float(self.tasks),
            "sampling_rounds": float(self.rounds),
        }


async def draw(collect: Callable[[int], Awaitable[Collected]], tasks: int, options: DynamicSampling) -> Drawn:
    """Collect groups for a step, until ``tasks`` of them have a signal (DAPO, arXiv 2503.14476, section 3.2).

    DAPO samples whole batches and throws the surplus away. Here each round draws only as many tasks as are still
    missing, so that every group with a signal is trained on.

    Args:
        collect: ``collect(n)`` returns the groups of n further tasks; the same ones when the step starts again.
        tasks: number of groups to return.
        options: filter of the groups, and the number of rounds.
    """
    parts = [await collect(tasks)]
    kept = [group for group in parts[0].groups if not options.max_rounds or options.teaches(group)]
    drawn = tasks
    while len(kept) < tasks and len(parts) < options.max_rounds:
        missing = tasks - len(kept)
        parts.append(await collect(missing))
        kept += filter(options.teaches, parts[-1].groups)
        drawn += missing
    return Drawn(tuple(kept), drawn, Collected.joined(parts), len(parts))
