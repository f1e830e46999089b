"""Asynchronous rollouts: episodes are played while the learner learns in a thread, never too far ahead of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pydantic

from ...agents.agent import Agent
from ...config import Config
from ...errors import ContractError, UsageError
from ...inference.pausable_clock import PausableClock
from ...rollouts.branching import Strategy
from ...rollouts.costs import RolloutCost
from ...rollouts.episode import Episode
from ...rollouts.options import RunOptions
from ...rollouts.pool import EnvPool
from ...rollouts.runner import IndexedTask, group_id, run_episodes
from ...rollouts.stats import RunStats
from ..learning.groups import grouped
from .account import EpisodeAccount
from .collect import Collected
from .preflight import refuse_hopeless
from .sampler import TaskSampler
from .scheduler import PendingGroup, StalenessScheduler


class OverlapConfig(Config):
    """Whether to play episodes while the learner learns.

    The policy then samples from a copy of the model in a thread of its own. Finishing times vary, so an overlapped run
    is not reproducible bit by bit, but it draws the same tasks and trains each once. Tokens may be older than the
    learner, and the decoupled objective (``is_mode="tis"``, the default with overlap) corrects for it. It clips ratios
    against the policy at the beginning of the step, and weights them by how that policy differs from the one that
    sampled.
    """

    enabled: bool = False
    """Play and learn at the same time."""
    max_staleness: int = pydantic.Field(default=1, ge=0)
    """How many policy versions older a token may be than the policy that it trains. With 0 the two sides alternate;
    n + 1 steps' worth of episodes are played at once, so ``episodes.concurrency`` should be as large."""


@dataclass(frozen=True, slots=True)
class Source:
    """Everything that playing episodes needs.

    Args:
        pool: environments.
        agent: agent that plays; its policy must not share its model with the learner.
        sampler: source of tasks; its cursor is behind the last one drawn.
        options: how to play episodes, except for the size of groups.
        steps: number of steps of the whole run.
        seed: seed of the run.
    """

    pool: EnvPool
    agent: Agent
    sampler: TaskSampler
    options: RunOptions
    steps: int
    seed: int = 0


class AsyncRollouts:
    """Plays groups in the background and hands them out in the order in which they finish.

    A group starts when the gate has room (see ``StalenessScheduler``), whatever the learner is doing; running episodes
    continue across updates. ``collect`` returns the first groups that finish, but it waits for those that would
    otherwise become too old. It cancels and drops nothing.

    Args:
        source: everything that playing episodes needs.
        max_staleness: η, in policy versions.
        pending: finished episodes that are not trained yet; at first those of the checkpoint.
        version: number of trained steps.
        drawn: ``state_dict()["drawn"]`` of the checkpoint, if there is one.
    """

    def __init__(
        self,
        source: Source,
        *,
        max_staleness: int,
        pending: list[Episode],
        version: int = 0,
        drawn: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.max_staleness = max_staleness
        self.pending = pending
        self.account = EpisodeAccount()
        self._source = source
        self._version = version
        self._restored = [(int(position), int(born)) for position, born in drawn]
        self._scheduler: StalenessScheduler | None = None
        self._playing: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._busy = PausableClock(running=False)

    @property
    def generating(self) -> float:
        """Seconds so far in which at least one episode was running."""
        return self._busy.seconds

    @property
    def background(self) -> Callable[[], float]:
        """A function that reads ``generating``."""
        return lambda: self.generating

    async def collect(self, step: int, tasks: int, group_size: int, strategy: Strategy | None = None) -> Collected:
        """Return ``tasks`` groups for the step that makes version ``step + 1``; called again within it, further ones.

        Raises:
            UsageError: the size of groups changed within the run, or a strategy would fork episodes.
            ContractError: a token is older than allowed, or the agent broke its contract.
            PromptTooLongError: the very first prompt of every single episode is too long.
            InfrastructureError: the infrastructure lost every single episode.
        """
        if strategy is not None:
            raise UsageError("episodes that are played in the background are whole attempts: leave branching out")
        scheduler = self._begun(tasks, group_size)
        scheduler.expect(tasks, step)
        self._moved.set()  # a new version makes room, for which the source of tasks may be waiting
        while not scheduler.ready(tasks):
            self._raise_if_over()  # after an error of the player nothing would ever end this loop
            self._moved.clear()
            await self._moved.wait()
        taken = scheduler.take(tasks)
        episodes = [episode for group in taken for episode in group]
        refuse_hopeless(episodes, self._source.agent)
        stats = RunStats()
        for episode in episodes:
            stats.add(episode)
            stats.retries += episode.attempts - 1
        extra = {"overlap/running": float(scheduler.running), "overlap/ready": float(scheduler.over)}
        cost = RolloutCost.of(episodes)
        return Collected(tuple(grouped(episodes)), stats, extra | staleness(episodes, step), cost, tasks)

    def trained(self, tasks: int = 0) -> None:
        """Note that the step has been learned. The cursor is behind the drawn tasks already, whatever ``tasks`` is."""
        if self._scheduler is not None:
            self.account.close(self._scheduler.trained())

    def accounts(self) -> dict[str, float]:
        """Return the account of the run's episodes, and of its workers."""
        # Open episodes are those of the scheduler, and not the rest of the account: else no sum would show a lost one.
        scheduler = self._scheduler
        opened = len(scheduler.untrained) * scheduler.group_size if scheduler is not None else 0
        return self.account.metrics(opened) | dict(self._source.pool.counters)

    def state_dict(self) -> Mapping[str, Any]:
        """Return drawn and untrained groups, for JSON. Their finished episodes are in ``pending``."""
        if self._scheduler is None:
            return {"drawn": self._restored}
        return {"drawn": [(one.position, one.born) for one in self._scheduler.untrained.values()]}

    async def close(self) -> None:
        """Stop playing. Running episodes are dropped; their tasks stay drawn, to be played again."""
        if self._playing is not None:
            # Nothing is kept of an episode under way: half an episode has no return.
            self._playing.cancel()
            await asyncio.wait([self._playing])
            if not self._playing.cancelled():
                self._playing.exception()  # collect() raises it, or it comes too late to matter
        self._busy.run(False)

    # -- the inside ---------------------------------------------------------------------------------------------

    def _begun(self, tasks: int, group_size: int) -> StalenessScheduler:
        """Return the scheduler, with the state of a checkpoint; the first call starts to play episodes."""
        if self._scheduler is None:
            episodes = list(self.pending)
            scheduler = StalenessScheduler(
                batch=tasks,
                group_size=group_size,
                max_staleness=self.max_staleness,
                steps=self._source.steps,
                pending=self.pending,
            )
            groups = [(self._group(position), PendingGroup(position, born)) for position, born in self._restored]
            scheduler.restore(self._version, groups, episodes)
            self.account.draw(len(groups) * group_size)
            self._scheduler = scheduler
            # Members of a half-finished group that a checkpoint kept are not played again; the others get the same ids.
            skip = [episode.episode_id for episode in episodes]
            self._playing = asyncio.create_task(self._play(scheduler, skip), name="turnwise-overlap")
        if group_size != self._scheduler.group_size:
            raise UsageError(
                f"a group of {group_size} episodes was requested, and this run collects groups of "
                f"{self._scheduler.group_size}; one run has one group size"
            )
        return self._scheduler

    async def _play(self, scheduler: StalenessScheduler, skip: Sequence[str]) -> None:
        source = self._source
        options = source.options.model_copy(update={"group_size": scheduler.group_size})
        tasks = self._admitted(scheduler)
        try:
            async with aclosing(run_episodes(source.pool, source.agent, tasks, options=options, skip=skip)) as episodes:
                async for episode in episodes:
                    scheduler.finish(episode)
                    self._busy.run(scheduler.running > 0)
                    self._moved.set()
        finally:
            self._busy.run(False)
            self._moved.set()

    async def _admitted(self, scheduler: StalenessScheduler) -> AsyncGenerator[IndexedTask, None]:
        """Yield tasks, each as soon as there is room for it; first those that a checkpoint left unfinished."""
        sampler = self._source.sampler
        for position in scheduler.unfinished():
            self._busy.run(True)
            yield IndexedTask(position, sampler.at(position))
        while True:
            while not scheduler.room:
                self._moved.clear()
                await self._moved.wait()
            # The cursor moves when a task is drawn, not when it is trained on. ``state_dict`` lists what was drawn, so
            # a resumed run loses none and trains none twice.
            position = sampler.cursor
            (task,) = sampler.draw(1)
            scheduler.begin(position, self._group(position))
            self.account.draw(scheduler.group_size)
            self._busy.run(True)
            yield IndexedTask(position, task)

    def _group(self, position: int) -> str:
        source = self._source
        return group_id(source.pool.env_id, source.sampler.at(position), position, source.options.seed)

    def _raise_if_over(self) -> None:
        if self._playing is not None and self._playing.done():
            self._playing.result()
            raise ContractError("the collector stopped by itself; nothing more is played")


def staleness(episodes: Sequence[Episode], version: int) -> dict[str, float]:
    """Measure the age of the sampled tokens at ``version``, and the share of actions with more than one version."""
    actions = [turn.versions for episode in episodes for turn in episode.turns if turn.versions]
    if not actions:
        return {}
    ages = [version - token for action in actions for token in action]
    return {
        "overlap/staleness_max": float(max(ages)),
        "overlap/staleness_mean": sum(ages) / len(ages),
        "overlap/spanning": sum(len(set(action)) > 1 for action in actions) / len(actions),
    }
