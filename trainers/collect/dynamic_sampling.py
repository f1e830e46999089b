"""Dynamic sampling: groups that teach nothing are dropped, and further tasks drawn in their place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pydantic

from ...config import Config
from ..learning.groups import Group
from .collect import Collected


class DynamicSampling(Config):
    """Which groups a step learns from, and how long it looks for them."""

    max_rounds: int = pydantic.Field(default=0, ge=0)
    """How often tasks are drawn for a step at most, until enough groups teach something; 0 keeps every group."""
    max_pass_rate: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Groups of which a larger share succeeded are dropped too (ScaleRL, arXiv 2510.13786, leaves out tasks from 0.9
    on)."""

    def teaches(self, group: Group) -> bool:
        """Whether members' returns differ, and not too many of them succeeded."""
        passed = sum(episode.success for episode in group.members)
        return len(set(group.returns)) > 1 and passed <= self.max_pass_rate * len(group.members)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a step learns from.

    Args:
        groups: those kept, in the order in which their tasks were drawn.
        tasks: how many tasks were drawn for them.
        collected: everything that was played, dropped groups included: returns and success are told of all of it.
        rounds: how often tasks were drawn.
    """

    groups: tuple[Group, ...]
    tasks: int
    collected: Collected
    rounds: int = 1

    def metrics(self) -> dict[str, float]:
        """Those of all that was played, and how much of it was dropped."""
        return self.collected.metrics() | {
            "groups": float(len(self.groups)),
            "groups_dropped": float(len(self.collected.groups) - len(self.groups)),
            "tasks_drawn": float(self.tasks),
            "sampling_rounds": float(self.rounds),
        }


async def draw(collect: Callable[[int], Awaitable[Collected]], tasks: int, options: DynamicSampling) -> Drawn:
    """Collect groups for a step, until ``tasks`` of them teach something (DAPO, arXiv 2503.14476, section 3.2).

    Unlike DAPO, which samples whole batches and throws away what is too much, each round draws as many tasks as are
    still missing, so that whatever teaches is trained on.

    Args:
        collect: ``collect(n)`` gives the groups of n further tasks; the same ones when the step begins anew.
        tasks: how many groups are wanted.
        options: which groups teach, and how many rounds there are.
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
