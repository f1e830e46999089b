"""Branching rollouts: episodes that leave one another in the middle, over forked environments and conversations.

A *strategy* says who branches where; here is what all of them need. Every episode that comes out is complete on its
own: a branch repeats the turns of the episode that it left, and ``Episode.fork`` says which ones those are.

How a path through a tree ends is as in ``run_episodes``. What fails by the machinery's fault is tried again from where
it began: a reset, or a fresh fork of the place where it left; the branches of what is begun anew are dropped with it,
since the episode that they left never was. What fails every time is ``infra_failed``, and is never scored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

from ..agents.agent import Agent
from ..errors import EnvironmentTimeoutError, InfrastructureError
from ..tasks.spec import TaskSpec
from .attempt import Attempt
from .episode import Episode, Fork, Outcome
from .hosts import Host
from .jobs import Job
from .options import RunOptions
from .place import Lender, Place, Watcher
from .pool import EnvPool
from .runner import LONGEST_BACKOFF, Placed, fingerprints, group_id
from .stats import RunStats
from .turns import one_line

T = TypeVar("T")


class Strategy(Protocol):
    """Who branches where. It has no state of its own."""

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        """All ``size`` episodes of one task, with the member numbers 0 to ``size − 1``."""
        ...


class Branching(Watcher, Protocol):
    """A watcher that may have set something going, which stands or falls with the attempt that it watches."""

    async def stop(self) -> None:
        """The attempt is void: drop what came of it."""
        ...


W = TypeVar("W", bound=Branching)


async def branch_episodes(
    pool: EnvPool,
    agent: Agent,
    tasks: Iterable[TaskSpec | Placed],
    *,
    strategy: Strategy,
    options: RunOptions,
    skip: Collection[str] = (),
    stats: RunStats | None = None,
) -> AsyncGenerator[Episode, None]:
    """Play every task by a strategy; ``options.group_size`` episodes each, which come together when all are over.

    Args:
        pool: environments.
        agent: who acts; its sessions can be forked.
        tasks: at most ``concurrency`` of them are begun ahead of the consumer.
        strategy: who branches where.
        options: how to run; ``concurrency`` counts whatever is being played, branches and lookaheads alike.
        skip: episode ids that are there already; a task is skipped whole.
        stats: counted into, if given; lookaheads are counted in failures and retries only.

    Raises:
        UsageError: a task or a setting is wrong, or the agent's sessions cannot be forked.
        ContractError: the agent broke its contract, or the environment cannot be forked.
    """
    counted = stats or RunStats()
    slots = asyncio.Semaphore(options.concurrency)
    todo = _paths(pool, agent, tasks, options, skip, counted, slots)
    playing: dict[asyncio.Task[list[Episode]], int] = {}
    try:
        while True:
            while len(playing) < options.concurrency and (paths := next(todo, None)) is not None:
                playing[asyncio.create_task(strategy.play(paths, options.group_size))] = paths.index
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


def _paths(
    pool: EnvPool,
    agent: Agent,
    tasks: Iterable[TaskSpec | Placed],
    options: RunOptions,
    skip: Collection[str],
    stats: RunStats,
    slots: asyncio.Semaphore,
) -> Iterator[Paths]:
    marks = fingerprints(pool, options)
    for count, given in enumerate(tasks):
        place = given if isinstance(given, Placed) else Placed(count, given)
        group = group_id(pool.env_id, place.task, place.index, options.seed)
        if f"{group}-0" not in skip:
            job = Job(place.task, place.index, 0, "", group, pool.env_id, marks)
            yield Paths(pool, agent, options, stats, slots, job)


@dataclass(frozen=True, slots=True)
class Paths:
    """Plays the paths of one task's tree.

    Args:
        pool: environments for paths that begin by a reset.
        agent: who acts.
        options: how to run.
        stats: retries and failures are counted into it.
        slots: one is held by each path that is being played.
        root: what the jobs of this task share.
    """

    pool: EnvPool
    agent: Agent
    options: RunOptions
    stats: RunStats
    slots: asyncio.Semaphore
    root: Job

    @property
    def index(self) -> int:
        """The task's place in the run."""
        return self.root.index

    def job(self, member: int, fork: Fork | None = None) -> Job:
        """The job of an episode that will be recorded."""
        return replace(self.root, member=member, episode_id=f"{self.root.group_id}-{member}", fork=fork)

    def aside(self, name: str, fork: Fork) -> Job:
        """The job of a rollout that is looked at and not recorded."""
        return replace(self.root, episode_id=name, fork=fork)

    async def play(
        self,
        job: Job,
        lender: Lender,
        *,
        origin: Place | None = None,
        watch: Callable[[Slot], W] | None = None,
    ) -> tuple[Episode, W | None]:
        """Play one path to its end, as often as the machinery fails and ``options.retries`` allows.

        Args:
            job: what is played.
            lender: where environments come from.
            origin: the place that it goes on from; a reset when omitted.
            watch: makes the watcher of each attempt, given the slot that the attempt holds.

        Returns:
            the episode, and the watcher of the attempt that it is of; ``None`` where all attempts failed.
        """
        number, failed = 1, None
        while True:
            slot = Slot(self.slots)
            watcher = watch(slot) if watch is not None else None
            attempt = Attempt(job, number, self.agent, self.options, origin=origin, watcher=watcher)
            attempt = attempt.following(failed) if failed is not None else attempt
            try:
                async with slot:
                    return await attempt.play(lender), watcher
            except InfrastructureError as error:
                await _voided(watcher)
                self.stats.failures[type(error).__name__] += 1
                if number > self.options.retries:
                    return attempt.sealed(Outcome.INFRA_FAILED, error=one_line(error)), None
            except BaseException:
                await _voided(watcher)
                raise
            finally:
                await attempt.release()
            self.stats.retries += 1
            await asyncio.sleep(min(self.options.backoff * 2 ** (number - 1), LONGEST_BACKOFF))
            number, failed = number + 1, attempt


class Slot:
    """The right to be played, one of ``concurrency``; whoever waits for others hands it back meanwhile."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots, self._held = slots, False

    async def __aenter__(self) -> Self:
        await self._slots.acquire()
        self._held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._held:
            self._held = False
            self._slots.release()

    async def lent(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Wait for others to be played, without the slot."""
        await self.__aexit__()
        result = await waiting
        await self.__aenter__()
        return result


class Forks:
    """Lends forks of one environment, which must not move meanwhile."""

    def __init__(self, origin: Host) -> None:
        self._origin = origin
        self._closing: set[asyncio.Future[None]] = set()

    async def take(self) -> Host:
        """A fork."""
        return await self._origin.fork()

    def give(self, host: Host, *, reusable: bool) -> None:
        """Close a fork; one that was cut short in a call is abandoned."""
        del reusable
        if host.busy:
            host.abandon()
        else:
            self._closing.add(asyncio.ensure_future(host.close()))

    async def close(self, *, origin: bool) -> None:
        """Wait until all that was handed back is closed; then close the origin too, if asked."""
        if origin:
            self.give(self._origin, reusable=False)
        await asyncio.gather(*self._closing, return_exceptions=True)


async def forked(host: Host, options: RunOptions) -> Host:
    """A fork of an environment, within ``env_timeout``.

    Raises:
        InfrastructureError: it could not be made.
        ContractError: it never can: the environment cannot be forked.
    """
    limit = options.env_timeout
    try:
        async with asyncio.timeout(limit) as deadline:
            return await host.fork()
    except TimeoutError:
        if not deadline.expired():
            raise
        raise EnvironmentTimeoutError(f"no answer to fork after {limit:g} s (env_timeout)") from None


async def refuse_unforkable(pool: EnvPool, task: TaskSpec, options: RunOptions) -> None:
    """Fork an environment once where nothing is lost yet; one that fails otherwise is left to whoever plays in it.

    Raises:
        ContractError: it cannot be forked; says why.
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
    """All results in order; when one raises, or the wait is cancelled, the others are cancelled and waited for."""
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


async def _voided(watcher: Branching | None) -> None:
    if watcher is not None:
        await watcher.stop()
