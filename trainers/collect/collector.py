"""The seam between the training loop and the play of its episodes: in turn with learning, or in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from ...rollouts.branching import Strategy
from ...rollouts.episode import Episode
from ..learning.main_process import run_on_main
from ..learning.parallel import ProcessGroup
from .async_rollouts import Source
from .collect import Collected, collect
from .sampler import round_seed


class Collector(Protocol):
    """Collects the episodes of one step after another: ``StepCollector`` or ``AsyncRollouts``."""

    @property
    def pending(self) -> list[Episode]:
        """Finished episodes that no step has been trained on; a checkpoint holds them."""
        ...

    @property
    def background(self) -> Callable[[], float] | None:
        """Where episodes are played while the learner learns: the seconds of play so far; ``None`` elsewhere."""
        ...

    async def collect(self, step: int, tasks: int, group_size: int, strategy: Strategy | None = None) -> Collected:
        """Return the groups of a step; called again within the step, further ones.

        Args:
            step: the number of finished steps, which is the policy version.
            tasks: how many groups.
            group_size: episodes per group.
            strategy: forks episodes in the middle; whole attempts only when omitted.
        """
        ...

    def trained(self, tasks: int = 0) -> None:
        """Note that the step has been learned.

        Args:
            tasks: how many tasks were drawn for it.
        """
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Return what a checkpoint must hold besides ``pending``: JSON-able, empty if nothing."""
        ...

    async def close(self) -> None:
        """Stop playing."""
        ...


class StepCollector:
    """Plays the groups of a step while the learner waits.

    Args:
        source: what episodes are played with.
        world: the processes that learn together; the main one plays.
        pending: finished episodes of an interrupted step, which are not played again.
    """

    background = None

    def __init__(self, source: Source, world: ProcessGroup, pending: list[Episode]) -> None:
        self.pending = pending
        self._source = source
        self._world = world
        self._asked = 0

    async def collect(self, step: int, tasks: int, group_size: int, strategy: Strategy | None = None) -> Collected:
        """Play the groups of a step. The data cursor moves only when they have been trained on.

        Raises:
            PromptTooLongError: The very first prompt of every single episode is too long.
            InfrastructureError: Every single episode was lost.
            UsageError: Much of what the environment says is not in the model's vocabulary.
        """
        source, first = self._source, self._asked
        self._asked += tasks
        drawn = source.sampler.peek(self._asked)[first:]
        seed = round_seed("train", source.seed, step)
        options = source.options.model_copy(update={"seed": seed, "group_size": group_size})
        play = partial(collect, source.pool, source.agent, drawn, options=options, strategy=strategy, first=first)
        return await run_on_main(self._world, lambda: play(done=tuple(self.pending), keep=self.pending))

    def trained(self, tasks: int = 0) -> None:
        self._source.sampler.cursor += tasks
        self._asked = 0
        self.pending.clear()

    def state_dict(self) -> Mapping[str, Any]:
        return {}

    async def close(self) -> None:
        """Do nothing: between steps, nothing is played."""
