"""Branching rollouts: episodes that leave one another in the middle, over forked environments and conversations.

A *strategy* decides where paths branch; this module has what all strategies need. Every resulting episode is complete
on its own: a branch repeats the turns of its parent, and ``Episode.fork`` says which ones those are.

A path through a tree ends as in ``run_episodes``. After an infrastructure failure it is tried again from its start: a
reset, or a fresh fork of its branching point. If a path restarts, its branches are dropped, because the episode that
they left no longer exists. A path that fails every time is ``infra_failed``, and is never scored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from ..agents.agent import Agent
from ..errors import InfrastructureError
from ..tasks.spec import TaskSpec
from .episode import Episode, Fork, Outcome
from .episode_request import EpisodeRequest
from .episode_run import EpisodeRun
from .episode_state import EpisodeState, HostProvider, RolloutObserver
from .hosts import Host, in_time
from .options import RunOptions
from .playing import with_retries
from .pool import EnvPool, RemotePool, width
from .runner import IndexedTask, fingerprints, group_id
from .slot import Slot
from .stats import RunStats
from .turns import one_line

T = TypeVar("T")


class Strategy(Protocol):
    """Decides where paths branch. It has no state."""

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        """Play all ``size`` episodes of one task, with the member numbers 0 to ``size − 1``."""
        ...


class Branching(RolloutObserver, Protocol):
    """A observer that may have started branches, whose results depend on the attempt that it observes."""

    async def stop(self) -> None:
        """Drop the branches, because the attempt is void."""
        ...


W = TypeVar("W", bound=Branching)


async def branch_episodes(
    pool: EnvPool,
    agent: Agent,
    tasks: Iterable[TaskSpec | IndexedTask],
    *,
    strategy: Strategy,
    options: RunOptions,
    skip: Collection[str] = (),
    stats: RunStats | None = None,
) -> AsyncGenerator[Episode, None]:
    """Play every task by a strategy, and yield its ``options.group_size`` episodes together when all have ended.

    Args:
        pool: pool of environments.
        agent: agent that acts; its sessions must have ``fork()``.
        tasks: tasks; at most ``concurrency`` of them are started ahead of the consumer.
        strategy: strategy that decides where paths branch.
        options: options of the run; ``concurrency`` counts everything that is played, including branches and
            lookaheads.
        skip: ids of existing episodes; a task is skipped as a whole.
        stats: statistics to update, if given; lookaheads count only as failures and retries.

    Raises:
        UsageError: a task or a setting is wrong, or the agent's sessions cannot be forked.
        ContractError: the agent broke its contract, or the environment cannot be forked.
    """
    counted = stats or RunStats()
    forks = pool.keep_for_forks()
    slots = asyncio.Semaphore(min(options.concurrency, forks))
    todo = _paths(pool, agent, tasks, options, skip, counted, slots)
    playing: dict[asyncio.Task[list[Episode]], int] = {}
    try:
        while True:
            while len(playing) < min(width(pool, options), forks) and (paths := next(todo, None)) is not None:
                playing[asyncio.create_task(_tree(paths, strategy))] = paths.index
            if not playing:
                return
            done, _ = await asyncio.wait(playing, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=playing.__getitem__):
                del playing[task]
                for episode in task.result():
                    counted.add(episode)
                    yield episode
    finally:
        await _stopped(playing)


async def play_tree(
    request: EpisodeRequest,
    pool: EnvPool,
    strategy: Strategy,
    agent: Agent,
    options: RunOptions,
    stats: RunStats,
    slots: asyncio.Semaphore,
) -> list[Episode]:
    """Play all episodes of one task on this pool; ``stats`` counts retries and failures only.

    Args:
        request: values that the episodes of the task share.
        pool: pool of environments.
        strategy: strategy that decides where paths branch.
        agent: agent that acts.
        options: options of the run.
        stats: statistics for retries and failures.
        slots: semaphore; each path that is being played occupies one.
    """
    return await strategy.play(Paths(pool, agent, options, stats, slots, request), options.group_size)


async def _tree(paths: Paths, strategy: Strategy) -> list[Episode]:
    """Play the tree of one task where the pool's episodes are played."""
    pool = paths.pool
    if isinstance(pool, RemotePool):
        return await pool.play_tree(paths.root, strategy, paths.agent, paths.options, paths.stats)
    return await strategy.play(paths, paths.options.group_size)


def _paths(
    pool: EnvPool,
    agent: Agent,
    tasks: Iterable[TaskSpec | IndexedTask],
    options: RunOptions,
    skip: Collection[str],
    stats: RunStats,
    slots: asyncio.Semaphore,
) -> Iterator[Paths]:
    marks = fingerprints(pool, options)
    for count, given in enumerate(tasks):
        place = given if isinstance(given, IndexedTask) else IndexedTask(count, given)
        group = group_id(pool.env_id, place.task, place.index, options.seed)
        if f"{group}-0" not in skip:
            request = EpisodeRequest(place.task, place.index, 0, "", group, pool.env_id, marks)
            yield Paths(pool, agent, options, stats, slots, request)


@dataclass(frozen=True, slots=True)
class Paths:
    """Plays the paths of one task's tree.

    Args:
        pool: pool of environments for paths that start with a reset.
        agent: agent that acts.
        options: options of the run.
        stats: statistics for retries and failures.
        slots: semaphore; each path that is being played occupies one.
        root: values that the requests of this task share.
    """

    pool: EnvPool
    agent: Agent
    options: RunOptions
    stats: RunStats
    slots: asyncio.Semaphore
    root: EpisodeRequest

    @property
    def index(self) -> int:
        """Index of the task in the run."""
        return self.root.index

    def request(self, member: int, fork: Fork | None = None) -> EpisodeRequest:
        """Return the request of an episode that will be recorded."""
        return replace(self.root, member=member, episode_id=f"{self.root.group_id}-{member}", fork=fork)

    def unrecorded_request(self, name: str, fork: Fork) -> EpisodeRequest:
        """Return the request of a rollout that will not be recorded."""
        return replace(self.root, episode_id=name, fork=fork)

    async def play(
        self,
        request: EpisodeRequest,
        provider: HostProvider,
        *,
        origin: EpisodeState | None = None,
        watch: Callable[[Slot], W] | None = None,
    ) -> tuple[Episode, W | None]:
        """Play one path to its end, and retry after infrastructure failures as often as ``options.retries`` allows.

        Args:
            request: request of the path.
            provider: source of environments.
            origin: state from which it continues (default: a reset).
            watch: creates the observer of each attempt from the attempt's slot.

        Returns:
            The episode, and the observer of its attempt; ``None`` in place of the observer if all attempts failed.
        """
        attempt: EpisodeRun | None = None
        lost: Episode | None = None

        async def play(number: int) -> tuple[Episode, W | None]:
            nonlocal attempt, lost
            slot = Slot(self.slots)
            observer = watch(slot) if watch is not None else None
            started = EpisodeRun(request, number, self.agent, self.options, origin=origin, observer=observer)
            attempt = started.following(attempt) if attempt is not None else started
            try:
                async with slot:
                    return await attempt.play(slot.without(provider)), observer
            except BaseException as error:
                await _voided(observer)
                lost = attempt.sealed(Outcome.INFRA_FAILED, error=one_line(error))
                raise
            finally:
                await attempt.release()

        try:
            return await with_retries(play, request, self.options, self.stats)
        except InfrastructureError:
            assert lost is not None
            return lost, None

    async def onward(self, state: EpisodeState, requests: Iterable[EpisodeRequest]) -> list[Episode]:
        """Play paths from a state, each on a fork of its environment, and return their episodes in order.

        Args:
            state: state from which they continue; its environment must not change meanwhile.
            requests: request of each path.
        """
        provider = Forks(state.host)
        try:
            played = await together(self.play(request, provider, origin=state) for request in requests)
        finally:
            await provider.close(origin=False)
        return [episode for episode, _ in played]

    async def rollouts(self, state: EpisodeState, request: EpisodeRequest, count: int) -> list[Episode]:
        """Play rollouts that will not be recorded from a state of an episode, and return them in order.

        Args:
            state: state of the episode.
            request: request of the episode.
            count: number of rollouts.
        """
        turn, mine = len(state.turns), request.episode_id
        names, fork = (f"{mine}-{turn}-{number}" for number in range(count)), Fork(mine, (mine,) * turn)
        return await self.onward(state, (self.unrecorded_request(name, fork) for name in names))


class Forks:
    """Lends forks of one environment, which must not change meanwhile."""

    queues = False

    def __init__(self, origin: Host) -> None:
        self._origin = origin
        self._closing: set[asyncio.Future[None]] = set()

    async def take(self) -> Host:
        """Return a fork."""
        return await self._origin.fork()

    def give(self, host: Host, *, reusable: bool) -> None:
        """Close a fork; one that was interrupted in a call is abandoned."""
        del reusable
        if host.busy:
            host.abandon()
        else:
            self._closing.add(asyncio.ensure_future(host.close()))

    async def close(self, *, origin: bool) -> None:
        """Wait until all returned forks are closed; then close the origin too, if requested."""
        if origin:
            self.give(self._origin, reusable=False)
        await asyncio.gather(*self._closing, return_exceptions=True)


async def forked(host: Host, options: RunOptions) -> Host:
    """Fork an environment, within ``env_timeout``.

    Raises:
        InfrastructureError: forking failed.
        ContractError: the environment cannot be forked at all.
    """
    return await in_time(host.fork(), "fork", options.env_timeout)


async def refuse_unforkable(pool: EnvPool, task: TaskSpec, options: RunOptions) -> None:
    """Fork an environment once before anything is at stake; other failures are left to the episodes.

    Raises:
        ContractError: it cannot be forked; the message says why.
    """
    with contextlib.suppress(InfrastructureError, TimeoutError):
        host = await pool.take()
        try:
            async with asyncio.timeout(options.env_timeout):
                await host.reset(task)
            await (await forked(host, options)).close()
        finally:
            pool.give(host, reusable=False)


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order; if one raises, or the wait is cancelled, cancel and await the others."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await _stopped(tasks)


async def _stopped(tasks: Iterable[asyncio.Future[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _voided(observer: Branching | None) -> None:
    if observer is not None:
        await observer.stop()
