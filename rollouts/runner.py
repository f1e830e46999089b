"""``run_episodes``: play tasks concurrently and yield episodes as they finish.

Plain asyncio: one worker per concurrent episode, no barrier between turns. How an episode ends:

==================================================  ======================================================
the environment terminates                          ``completed``
a turn limit ends it                                ``truncated``
the policy exceeds ``turn_timeout`` (at a server    ``policy_failed``: scored, as a failure
that works, its ``request_timeout``), or its
prompt exceeds the context
the environment raises, hangs or dies; the policy   retried on a fresh environment ``retries`` times, with the
server is gone (``InfrastructureError``)            recorded actions where the agent can go on from there, and with the
                                                    same random numbers otherwise; then ``infra_failed``: unscored,
                                                    its turns kept for inspection
``episode_timeout`` passes in a turn of the agent   ``policy_failed``: scored, as a failure
or while its action is answered
``episode_timeout`` passes while an environment is  ``cancelled``: unscored, not retried
opened or a remote server is waited for
the agent raises anything else                      the run stops with a ``ContractError``: a bug is not data
a task or a setting is wrong (``UsageError``)       the run stops with that error
the run is closed or interrupted                    dropped; ``RunStats`` counts it as cancelled
==================================================  ======================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..agents.agent import Agent
from ..errors import ContractError, UsageError
from ..loop_thread import refuse_running_loop
from ..stop_signals import run_until_stopped
from ..tasks.rng import stable_hash
from ..tasks.spec import TaskSpec
from .deadlines import asked_to_stop
from .episode import Episode
from .episode_request import EpisodeRequest
from .options import RunOptions, run_options
from .playing import play_request
from .pool import EnvPool, EnvSource, RemotePool, width
from .stats import RunStats


@dataclass(frozen=True, slots=True)
class IndexedTask:
    """A task with its index in the run, for a source that yields tasks out of order: ids follow from the index.

    Args:
        index: index of the task; a plain task gets it by counting.
        task: specification of the task.
    """

    index: int
    task: TaskSpec


Tasks = Iterable[TaskSpec | IndexedTask] | AsyncIterable[TaskSpec | IndexedTask]
"""Source of tasks. An asynchronous source may delay the next one as long as it likes."""


async def run_episodes(
    env: EnvSource | EnvPool,
    agent: Agent,
    tasks: Tasks,
    *,
    options: RunOptions | None = None,
    skip: Collection[str] = (),
    stats: RunStats | None = None,
) -> AsyncGenerator[Episode, None]:
    """Play every task and yield each episode when it ends.

    Leaving the loop early closes everything; use ``contextlib.aclosing`` to have that happen at once rather than
    when the generator is collected.

    Args:
        env: a registered id, a class, a factory, or your own pool to keep environments between runs.
        agent: agent that acts.
        tasks: tasks, possibly lazy and infinite: at most ``concurrency`` episodes are ahead of the consumer. An
            asynchronous source yields a task when an episode may start, and is closed with the run.
        options: options of the run.
        skip: ids of existing episodes, as from ``EpisodeStore.ids()``.
        stats: statistics to update, if given.

    Raises:
        UsageError: a task, a setting or the environment's id is wrong.
        ContractError: the agent broke its contract; the message names the episode.
    """
    options = options or RunOptions()
    if isinstance(env, EnvPool):
        pool = env
    else:
        pool = EnvPool.of(env, isolation=options.isolation, env_kwargs=options.env_kwargs)
    requests = _Requests(pool, tasks, options, skip)
    run = _Run(pool, agent, requests, options, stats or RunStats())
    try:
        run.start()
        while (finished := await run.finished.get()) is not None:
            if isinstance(finished, BaseException):
                raise finished
            yield finished
    finally:
        await run.stop()
        if pool is not env:
            await pool.close()


def run(
    env: EnvSource,
    agent: Agent,
    tasks: Iterable[TaskSpec],
    *,
    skip: Collection[str] = (),
    stats: RunStats | None = None,
    **options: Any,
) -> list[Episode]:
    """Run ``run_episodes`` for synchronous code: return every episode, in the order of tasks and group members.

    Args:
        env: as for ``run_episodes``.
        agent: agent that acts.
        tasks: a finite number of tasks.
        skip: ids of existing episodes.
        stats: statistics to update, if given.
        options: fields of ``RunOptions``.

    Raises:
        UsageError: an event loop is already running (in a coroutine or a notebook).
    """
    chosen = run_options(**options)
    refuse_running_loop("run() cannot run inside an event loop; use `async for episode in run_episodes(...)` instead")
    order: dict[str, int] = {}

    async def collect() -> list[Episode]:
        async with EnvPool.of(env, isolation=chosen.isolation, env_kwargs=chosen.env_kwargs) as pool:

            def noted() -> Iterator[TaskSpec]:
                for index, task in enumerate(tasks):
                    order[group_id(pool.env_id, task, index, chosen.seed)] = index
                    yield task

            async with contextlib.aclosing(
                run_episodes(pool, agent, noted(), options=chosen, skip=skip, stats=stats)
            ) as episodes:
                return [episode async for episode in episodes]

    return sorted(run_until_stopped(collect()), key=lambda episode: (order[episode.group_id], _member(episode)))


def group_id(env_id: str, task: TaskSpec, index: int, seed: int) -> str:
    """Return the id shared by the episodes of the ``index``-th task of a run; theirs add ``-0``, ``-1``, …"""
    if not isinstance(task, TaskSpec):
        raise UsageError(f"tasks must yield TaskSpec; item {index} is {type(task).__name__}")
    return stable_hash("group", seed, env_id, task.digest, index).hex()[:16]


def fingerprints(pool: EnvPool, options: RunOptions) -> dict[str, str]:
    """Return the fingerprints that every episode of a run records."""
    return {
        "env_kwargs": json.dumps(dict(pool.env_kwargs), sort_keys=True, default=repr),
        "run_seed": str(options.seed),
        "turnwise": importlib.metadata.version("turnwise"),
    }


def _member(episode: Episode) -> int:
    return int(episode.episode_id.rpartition("-")[2])


class _Requests:
    """Requests of a run, one at a time, for any number of workers.

    Tasks of a plain iterable are taken without waiting, so that the order of everything is that of the iterable.
    """

    def __init__(self, pool: EnvPool, tasks: Tasks, options: RunOptions, skip: Collection[str]) -> None:
        self._pool, self._options, self._skipped = pool, options, frozenset(skip)
        self._fingerprints = fingerprints(pool, options)
        self._count = itertools.count()
        self._group: Iterator[EpisodeRequest] = iter(())
        self._tasks = aiter(tasks) if isinstance(tasks, AsyncIterable) else iter(tasks)
        self._asking = asyncio.Lock()

    async def take(self) -> EpisodeRequest | None:
        """Return the next request, or ``None`` if there is none left."""
        while (request := next(self._group, None)) is None:
            if isinstance(self._tasks, Iterator):
                given = next(self._tasks, None)
            else:
                async with self._asking:  # one worker takes the next task, and waiting ones share its group
                    if (request := next(self._group, None)) is not None:
                        return request
                    given = await anext(self._tasks, None)
            if given is None:
                return None
            self._group = self._requests(given)
        return request

    async def close(self) -> None:
        """Close the source, if it can be closed."""
        if isinstance(self._tasks, AsyncGenerator):
            await self._tasks.aclose()

    def _requests(self, given: TaskSpec | IndexedTask) -> Iterator[EpisodeRequest]:
        place = given if isinstance(given, IndexedTask) else IndexedTask(next(self._count), given)
        group = group_id(self._pool.env_id, place.task, place.index, self._options.seed)
        for member in range(self._options.group_size):
            episode_id = f"{group}-{member}"
            if episode_id not in self._skipped:
                yield EpisodeRequest(
                    place.task, place.index, member, episode_id, group, self._pool.env_id, self._fingerprints
                )


class _Run:
    """Workers of one run and their result queue: episodes, an error, ``None`` at the end."""

    def __init__(self, pool: EnvPool, agent: Agent, requests: _Requests, options: RunOptions, stats: RunStats) -> None:
        # Bounded: a slow consumer holds the workers back, so an infinite source of tasks fills no memory.
        self.finished: asyncio.Queue[Episode | BaseException | None] = asyncio.Queue(width(pool, options))
        self._pool = pool
        self._agent = agent
        self._requests = requests
        self._options = options
        self._stats = stats
        self._workers: set[asyncio.Task[None]] = set()
        self._started = 0

    def start(self) -> None:
        """Start the workers, or further ones if the pool has become wider."""
        while self._started < width(self._pool, self._options):
            self._workers.add(asyncio.create_task(self._work(), name=f"turnwise-worker-{self._started}"))
            self._started += 1

    async def stop(self) -> None:
        """Cancel the workers and wait until none is left."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        # Last: a source must not be closed while a worker waits in it.
        await self._requests.close()

    async def _work(self) -> None:
        try:
            while (request := await self._requests.take()) is not None:
                episode = await self._episode(request)
                self._stats.add(episode)
                await self.finished.put(episode)
                self.start()
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            said = "the agent, or the source of tasks, was canceled from within: it raised CancelledError"
            await self.finished.put(ContractError(said))  # or the run would wait for this worker forever
        except Exception as error:
            # Through the queue and not out of the task, where nothing would see it until the end of the run.
            await self.finished.put(error)
        self._workers.discard(asyncio.current_task())
        if not self._workers:
            await self.finished.put(None)

    async def _episode(self, request: EpisodeRequest) -> Episode:
        if isinstance(self._pool, RemotePool):
            return await self._pool.play_request(request, self._agent, self._options, self._stats)
        return await play_request(request, self._pool, self._agent, self._options, self._stats)
