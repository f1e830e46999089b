"""Trees on Ray workers over environment servers: forks find a place there, as in a local run."""

from __future__ import annotations

import asyncio
import pickle
from functools import partial
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.errors import UsageError
from turnwise.rollouts.branching import branch_episodes
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.episode_request import EpisodeRequest
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.packed import unpack
from turnwise.rollouts.pool import EnvPool, RemotePool
from turnwise.rollouts.stats import RunStats

from ..service.environment_servers import TOKEN, serving

pytest.importorskip("ray", reason="turnwise[ray] is not installed")
from turnwise.rollouts.cluster.lease import Lease, Played, WorkerSetup
from turnwise.rollouts.cluster.node import opened_pool
from turnwise.rollouts.cluster.worker import Worker

ENV = "turnwise/Maze-v0"
SEATS = 8
OPTIONS = RunOptions(concurrency=SEATS, group_size=6, retries=0)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)


def id_on(server: Any) -> str:
    return f"turnwise://{server.address.removeprefix('ws://')}/{ENV}"


def task(seed: int = 0) -> tw.TaskSpec:
    env = tw.make(ENV)
    spec: tw.TaskSpec = env.get_wrapper_attr("tasks")().spec(seed)
    env.close()
    return spec


class AlwaysLeft:
    """An agent whose sessions can be forked."""

    def start(self, context: EpisodeContext) -> Any:
        return self

    async def act(self, observation: tw.Observation) -> Decision:
        return Decision(tw.Action("move left"))

    def fork(self, context: Any = None) -> Any:
        return self


async def opened(id: str, workers: int) -> Worker:
    """A worker of several, in this process and without Ray."""
    worker = Worker()
    worker._setup = WorkerSetup(id, partial(tw.make, id), "inline", {}, ("", 0), "", SEATS, workers)
    worker._pool = await asyncio.to_thread(opened_pool, worker._setup)
    worker._agents["agent"] = AlwaysLeft()
    return worker


async def tree(worker: Worker, name: str) -> list[Episode]:
    """The episodes of a tree that a worker plays."""
    request = EpisodeRequest(task(), 0, 0, "", name, worker._pool.env_id, {})
    lease = Lease(request, 1, "agent", OPTIONS, pickle.dumps(StateValues(rollouts=1)))
    played = Played.unpacked(await worker.play(lease.packed(pickle.dumps(OPTIONS))))
    assert played.error is None, played.error
    assert not played.failures, "no fork may be refused"
    return unpack(played.episodes)


@pytest.mark.parametrize("idle", [0, 4])
@pytest.mark.parametrize("count", [1, 2])
async def test_forks_find_places_where_workers_have_more_seats_than_servers_have(count: int, idle: int) -> None:
    with serving([ENV], capacity=4) as server:
        workers = [await opened(id_on(server), count) for _ in range(count)]
        for worker in workers:  # as an evaluation leaves them
            hosts = [await worker._pool.take() for _ in range(idle)]
            for host in hosts:
                worker._pool.give(host, reusable=True)
        try:
            async with asyncio.timeout(500):
                trees = await asyncio.gather(*(tree(worker, f"g{n}") for n, worker in enumerate(workers)))
        finally:
            for worker in workers:
                await worker._pool.close()
    for episodes in trees:
        assert [episode.outcome for episode in episodes] == [Outcome.COMPLETED] * 6
        assert all(episode.lookaheads for episode in episodes)


class Elsewhere(RemotePool):
    """Many workers over the servers of a pool; it notes how many trees they have at a time."""

    width = 100
    playing = most = 0

    async def play_request(self, *given: Any) -> Episode:
        raise NotImplementedError

    async def play_tree(
        self, request: EpisodeRequest, strategy: Any, agent: Any, options: RunOptions, stats: RunStats
    ) -> list[Episode]:
        self.playing += 1
        self.most = max(self.most, self.playing)
        await asyncio.sleep(0.01)
        self.playing -= 1
        return []


async def test_workers_get_no_more_trees_than_there_are_places_for_forks() -> None:
    with serving([ENV], capacity=6) as server:
        local = await asyncio.to_thread(EnvPool.of, id_on(server))
        pool = Elsewhere(local.env_id, local.build, local.isolation, servers=local.servers)
        tasks = [task(seed) for seed in range(12)]
        run = branch_episodes(pool, AlwaysLeft(), tasks, strategy=StateValues(rollouts=1), options=OPTIONS)
        assert [episode async for episode in run] == []
        await pool.close()
    assert pool.most == 3, "each tree needs a place, and one for a fork"


async def test_a_server_that_plays_one_episode_at_a_time_is_refused_for_trees() -> None:
    with serving([ENV], capacity=1) as server:
        pool = await asyncio.to_thread(EnvPool.of, id_on(server))
        run = branch_episodes(pool, AlwaysLeft(), [task()], strategy=StateValues(rollouts=1), options=OPTIONS)
        with pytest.raises(UsageError, match="--capacity 2 or more"):
            await anext(run)
        await pool.close()
