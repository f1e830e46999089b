"""The interface between the training loop and its episodes: played in turn with learning, or in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...rollouts.branching import Strategy
from ...rollouts.episode import Episode
from ..learning.groups import Group
from .account import EpisodeAccount
from .async_rollouts import AsyncRollouts, Source
from .collect import Collected, collect
from .sampler import round_seed


class StepCollector:
    """Plays the groups of a step while the learner waits. It has the methods of ``AsyncRollouts``.

    Args:
        source: everything that playing episodes needs.
        pending: finished episodes of an interrupted step, which are not played again.
    """

    background = None

    def __init__(self, source: Source, pending: list[Episode]) -> None:
        self.pending = pending
        self.account = EpisodeAccount()
        self._source = source
        self._asked = 0
        self._played: list[Group] = []

    async def collect(self, step: int, tasks: int, group_size: int, strategy: Strategy | None = None) -> Collected:
        """Play the groups of a step; called again within the step, further ones.

        The data cursor moves only when they have been trained on.

        Args:
            step: the number of finished steps, which is the policy version.
            tasks: number of groups.
            group_size: episodes per group.
            strategy: rule for branching in the middle of episodes (default: whole attempts only).

        Raises:
            PromptTooLongError: The very first prompt of every single episode is too long.
            InfrastructureError: Every single episode was lost.
            UsageError: Much of the environment's text is not in the model's vocabulary.
        """
        source, first = self._source, self._asked
        self._asked += tasks
        self.account.draw(tasks * group_size)
        drawn = source.sampler.peek(self._asked)[first:]
        # One seed per step: an interrupted step that is collected again gives the same ids to the same attempts, and
        # ``pending`` says which of them are done.
        seed = round_seed("train", source.seed, step)
        options = source.options.model_copy(update={"seed": seed, "group_size": group_size})
        collected = await collect(
            source.pool,
            source.agent,
            drawn,
            options=options,
            strategy=strategy,
            first=first,
            done=tuple(self.pending),
            keep=self.pending,
        )
        self._played += collected.groups
        return replace(collected, extra={**collected.extra, **source.sampler.metrics()})

    def trained(self, tasks: int = 0) -> None:
        """Note that a step has been learned, for which so many tasks were drawn."""
        self._source.sampler.cursor += tasks
        self._source.sampler.observe(self._played)
        self._asked = 0
        self.account.close(self.pending)
        self._played.clear()
        self.pending.clear()

    def accounts(self) -> dict[str, float]:
        """Return the account of the run's episodes, and of its workers; between two steps none is open."""
        return self.account.metrics(len(self.pending)) | dict(self._source.pool.counters)

    def state_dict(self) -> Mapping[str, Any]:
        """Return nothing: a checkpoint needs only ``pending``."""
        return {}

    async def close(self) -> None:
        """Do nothing: no episode runs between steps."""


Collector = StepCollector | AsyncRollouts
"""Plays the episodes of one step after another, in turn with learning or in the background."""
