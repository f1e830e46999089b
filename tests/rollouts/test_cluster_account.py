"""Every episode once, whatever workers do: the driver's side of the cluster, against workers that a test makes up."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import turnwise as tw
from turnwise.agents.scripted import OracleAgent
from turnwise.envs.registry import make
from turnwise.errors import InfrastructureError
from turnwise.rollouts import branching_restart
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.engine import portable_pool
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.episode_request import EpisodeRequest
from turnwise.rollouts.options import RolloutsConfig, RunOptions
from turnwise.rollouts.packed import pack
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.stats import RunStats

ray = pytest.importorskip("ray", reason="turnwise[ray] is not installed")

from turnwise.rollouts.cluster import pool as cluster_pool  # noqa: E402
from turnwise.rollouts.cluster.keeper import LiveWorker  # noqa: E402
from turnwise.rollouts.cluster.lease import Lease, Played  # noqa: E402
from turnwise.rollouts.cluster.lease_channel import WorkerLostError  # noqa: E402
from turnwise.rollouts.cluster.pool import ClusterPool  # noqa: E402
from turnwise.rollouts.cluster.worker import KEPT, Worker  # noqa: E402
from turnwise.rollouts.cluster.workers import MOST_LOSSES, Workers  # noqa: E402

ENV = "turnwise/Maze-v0"
FATES = ("plays", "fails", "fails after an action", "dies", "is retired", "drains")
"""Possible ends of a lease."""


class Nobody:
    """A connection to no cluster."""

    host = "127.0.0.1"

    def __init__(self, address: str, *needs: object, object_store: int) -> None:
        self.address = address

    def close(self) -> None:
        """Do nothing."""


class Made:
    """Workers that are made up, on two nodes; each lease meets the next fate."""

    def __init__(self, pool: ClusterPool, workers: Workers, fates: Sequence[str]) -> None:
        self.pool, self.workers = pool, workers
        self.fates = itertools.chain(fates, itertools.repeat("plays"))
        self.pids = itertools.count(1)
        self.held: Counter[str] = Counter()
        self.attempts: dict[str, list[int]] = {}
        self.ending: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start one worker on each node; one that retires is replaced."""
        retire = self.workers.retire

        def and_replace(worker: LiveWorker, why: str) -> None:
            retire(worker, why)
            self.ending.append(asyncio.create_task(self.end(worker)))

        vars(self.workers)["retire"] = and_replace
        for node in ("north", "south"):
            await self.replace(node)

    async def replace(self, node: str) -> LiveWorker:
        """Start a worker."""
        worker = LiveWorker(None, 2, next(self.pids), node, node)
        worker.actor = SimpleNamespace(learn=_Method(lambda digest, agent: asyncio.sleep(0)))
        channel: Any = _Channel(self, worker)
        worker.channel = channel
        self.workers.began(worker)
        return worker

    async def end(self, worker: LiveWorker) -> None:
        """Do what a keeper does when a worker has ended."""
        if not worker.lost.done():
            await worker.emptied.wait()
        if worker not in self.workers.live:
            return
        self.workers.ended(worker)
        worker.mark_lost("it ended")
        await self.replace(worker.node)

    async def play(self, worker: LiveWorker, lease: Lease) -> bytes:
        """Play a lease as its fate has it."""
        request, fate = lease.request, next(self.fates)
        name = request.episode_id or request.group_id
        self.held[name] += 1
        assert self.held[name] == 1, "no two workers may have the lease of one episode"
        self.attempts.setdefault(name, []).append(lease.attempt)
        try:
            await asyncio.sleep(0)
            if fate == "dies":
                worker.mark_lost("killed")
                self.ending.append(asyncio.create_task(self.end(worker)))
                raise WorkerLostError("killed")
            if fate in ("is retired", "drains"):
                self.workers.retire(worker, fate)
            failed = fate.startswith("fails")
            outcome = Outcome.INFRA_FAILED if failed else Outcome.COMPLETED
            after = int(fate == "fails after an action")
            ids = [request.episode_id] if lease.strategy is None else [f"{name}-{n}" for n in range(lease.size)]
            episodes = [
                Episode(each, request.env_id, request.task, request.group_id, (), outcome, after_action=after)
                for each in ids
            ]
            return Played(lease.key, pack(episodes)).packed()
        finally:
            self.held[name] -= 1


class _Channel:
    def __init__(self, made: Made, worker: LiveWorker) -> None:
        self.play: Any = lambda data: made.play(worker, Lease.unpacked(data, pickle.loads))

    def close(self, why: str) -> None:
        """Do nothing: who dies here says so itself."""


class _Method:
    def __init__(self, call: Any) -> None:
        self.remote = call


@pytest.fixture
def cluster_pool_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a pool whose workers are made up."""
    monkeypatch.setattr(cluster_pool, "ClusterConnection", Nobody)
    monkeypatch.setattr(ray, "put", lambda data: data)
    monkeypatch.setattr(Workers, "_follow", _nothing)

    async def make_pool(fates: Sequence[str]) -> tuple[ClusterPool, Made]:
        config = RolloutsConfig(engine="ray", workers=2, episodes_per_worker=2)
        pool = ClusterPool(EnvPool.of(ENV), portable_pool(ENV).build, config)
        workers = await pool._started()
        made = Made(pool, workers, fates)
        await made.open()
        return pool, made

    return make_pool


async def _nothing(self: Workers) -> None:
    """Follow no nodes."""


def specs(count: int) -> list[tw.TaskSpec]:
    env = make(ENV)
    family = env.get_wrapper_attr("tasks")()
    env.close()
    return [family.spec(seed) for seed in range(count)]


TASKS = specs(6)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(FATES), max_size=24))
def test_every_episode_ends_once_whatever_happens_to_its_leases(cluster_pool_of: Any, fates: list[str]) -> None:
    async def life() -> tuple[ClusterPool, Made, list[Episode], RunStats]:
        pool, made = await cluster_pool_of(fates)
        stats = RunStats()
        options = RunOptions(group_size=2, seed=1)
        async with asyncio.timeout(30):
            found = [each async for each in run_episodes(pool, OracleAgent(), TASKS, options=options, stats=stats)]
        await pool.close()
        return pool, made, found, stats

    pool, made, found, stats = asyncio.run(life())

    ids = Counter(episode.episode_id for episode in found)
    assert len(ids) == 12, "no episode may be lost"
    assert set(ids.values()) == {1}, "no episode may be counted twice"
    assert pool.counts["drawn"] == pool.counts["ended"] == stats.episodes == 12
    assert pool.open == 0
    assert not +made.held
    for name, attempts in made.attempts.items():
        assert attempts == list(range(1, len(attempts) + 1)), f"each lease of {name} has its own number"
    leases = sum(map(len, made.attempts.values()))
    assert leases == 12 + pool.counts["lost"] + pool.counts["moved"], "each lease ended, was lost, or moved"
    assert all(1 <= episode.attempts <= len(made.attempts[episode.episode_id]) for episode in found)
    assert not pool._workers, "the pool is closed"
    assert not made.workers._unexplained._cases, "a death waits for an episode that has ended"
    assert not made.workers._unexplained._nodes
    failed = sum(episode.outcome is Outcome.INFRA_FAILED for episode in found)
    assert failed <= sum(fate.startswith("fails") for fate in fates)


async def test_an_agent_that_kills_its_workers_closes_no_node(cluster_pool_of: Any) -> None:
    """One of two tasks has every worker killed that plays it; the deaths are the episode's, whose next worker dies."""
    pool, made = await cluster_pool_of([])
    play = made.play

    async def poisoned(worker: LiveWorker, lease: Lease) -> bytes:
        if lease.request.task != TASKS[0]:
            return bytes(await play(worker, lease))
        worker.mark_lost("killed by an action")
        made.ending.append(asyncio.create_task(made.end(worker)))
        raise WorkerLostError("killed")

    made.play = poisoned
    options = RunOptions(group_size=2, seed=1)
    found = [each async for each in run_episodes(pool, OracleAgent(), TASKS[:3], options=options)]
    resting = made.workers.nodes.resting
    await pool.close()
    assert Counter(each.outcome for each in found) == {Outcome.COMPLETED: 4, Outcome.INFRA_FAILED: 2}
    assert pool.counts["lost"] >= 2 * MOST_LOSSES
    assert resting == 0, "a healthy node was closed for what an agent did"


async def test_a_given_up_episode_is_not_waited_for_when_its_worker_is_missed_late(cluster_pool_of: Any) -> None:
    """The driver learns from the call that a worker died, and its keeper only afterwards."""
    pool, made = await cluster_pool_of([])
    play, lost, missed = made.play, 0, asyncio.Event()

    async def miss(worker: LiveWorker) -> None:
        await missed.wait()
        await made.end(worker)

    async def poisoned(worker: LiveWorker, lease: Lease) -> bytes:
        nonlocal lost
        if lease.request.task != TASKS[0]:
            return bytes(await play(worker, lease))
        lost += 1
        worker.mark_lost("killed by an action")
        made.ending.append(asyncio.create_task(miss(worker) if lost > MOST_LOSSES else made.end(worker)))
        raise WorkerLostError("killed")

    made.play = poisoned
    found = [each async for each in run_episodes(pool, OracleAgent(), TASKS[:1], options=RunOptions(seed=1))]
    missed.set()
    await asyncio.gather(*made.ending)
    assert [each.outcome for each in found] == [Outcome.INFRA_FAILED]
    assert not made.workers._unexplained._cases, "a death waits for an episode that has ended"
    assert not made.workers._unexplained._nodes
    assert not made.workers.nodes.resting
    # The same episode, drawn again, says nothing about the deaths of before.
    made.play = play
    again = [each async for each in run_episodes(pool, OracleAgent(), TASKS[:1], options=RunOptions(seed=1))]
    assert [each.outcome for each in again] == [Outcome.COMPLETED]
    assert not any(place.failed for place in made.workers.nodes._places.values()), "a death was blamed on a node late"
    await pool.close()


async def test_a_node_that_kills_its_workers_rests(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of([])
    play = made.play

    async def murderous(worker: LiveWorker, lease: Lease) -> bytes:
        if worker.node != "north":
            for _ in range(8):  # otherwise, this node has played everything before the other one has a worker again
                await asyncio.sleep(0)
            return bytes(await play(worker, lease))
        worker.mark_lost("out of memory")
        made.ending.append(asyncio.create_task(made.end(worker)))
        raise WorkerLostError("killed")

    made.play = murderous
    options = RunOptions(group_size=2, seed=1)
    found = [each async for each in run_episodes(pool, OracleAgent(), TASKS, options=options)]
    resting = made.workers.nodes.rests("north"), made.workers.nodes.rests("south")
    await pool.close()
    assert Counter(each.outcome for each in found) == {Outcome.COMPLETED: 12}
    assert resting == (True, False)


async def test_an_episode_that_cannot_start_is_played_elsewhere_once(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of(["fails"])
    (episode,) = [each async for each in run_episodes(pool, OracleAgent(), TASKS[:1])]
    assert episode.outcome is Outcome.COMPLETED
    assert (episode.attempts, episode.redrawn, episode.after_action) == (2, 0, 0), "the failed attempt is recorded"
    assert pool.counts["moved"] == 1
    await pool.close()

    pool, made = await cluster_pool_of(["fails", "fails"])
    (episode,) = [each async for each in run_episodes(pool, OracleAgent(), TASKS[:1])]
    assert episode.outcome is Outcome.INFRA_FAILED
    assert episode.attempts == 2
    assert len(made.attempts[episode.episode_id]) == 2, "it fails in two places, so the place is not at fault"
    await pool.close()


async def test_a_failure_after_an_action_is_not_played_again(cluster_pool_of: Any) -> None:
    pool, _ = await cluster_pool_of(["fails after an action"])
    (episode,) = [each async for each in run_episodes(pool, OracleAgent(), TASKS[:1])]
    assert episode.outcome is Outcome.INFRA_FAILED, "the action may have caused it; again, it would be a second draw"
    assert pool.counts["moved"] == 0
    await pool.close()


async def test_a_failure_after_an_action_stays_where_its_worker_is_retired(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of(["fails after an action"])
    play = made.play

    async def grow(worker: LiveWorker, lease: Lease) -> bytes:
        made.workers.retire(worker, "it uses too much memory")
        played: bytes = await play(worker, lease)
        return played

    made.play = grow
    (episode,) = [each async for each in run_episodes(pool, OracleAgent(), TASKS[:1])]
    assert episode.outcome is Outcome.INFRA_FAILED, "the action may have caused the failure and the retirement"
    assert pool.counts["moved"] == 0
    await pool.close()


@pytest.mark.parametrize(("fate", "at_fault"), [("fails", True), ("fails after an action", False)])
async def test_failures_after_an_action_close_no_place(cluster_pool_of: Any, fate: str, at_fault: bool) -> None:
    pool, made = await cluster_pool_of([])
    play = made.play

    async def fail_in_the_north(worker: LiveWorker, lease: Lease) -> bytes:
        made.fates = itertools.repeat(fate if worker.node == "north" else "plays")
        played: bytes = await play(worker, lease)
        return played

    made.play = fail_in_the_north
    options = RunOptions(group_size=4, concurrency=1)
    found = [each async for each in run_episodes(pool, OracleAgent(), TASKS, options=options)]
    assert len(found) == 24
    assert bool(pool.counts["moved"]) == at_fault
    assert bool(made.workers.retired + made.workers.nodes.resting) == at_fault
    await pool.close()


async def test_an_episode_that_kills_its_workers_takes_no_others_along(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of([])
    play, company = made.play, []

    async def kill(worker: LiveWorker, lease: Lease) -> bytes:
        for _ in range(8):
            company.append((lease.request.episode_id, lease.attempt, worker.leases))
            await asyncio.sleep(0)
        if lease.request.episode_id == company[0][0]:
            made.fates = itertools.chain(["dies"], made.fates)
        played: bytes = await play(worker, lease)
        return played

    made.play = kill
    async with asyncio.timeout(30):
        options = RunOptions(group_size=2)
        found = [each async for each in run_episodes(pool, OracleAgent(), TASKS, options=options)]
    assert len(found) == 12
    (failed,) = [each for each in found if each.outcome is Outcome.INFRA_FAILED]
    assert failed.attempts == MOST_LOSSES + 1
    assert max(leases for _, _, leases in company) == 2, "others share their workers"
    late = {leases for name, attempt, leases in company if name == failed.episode_id and attempt > 2}
    assert late == {1}, "after two losses, an episode has its worker alone"
    assert all(each.attempts <= 3 for each in found if each is not failed)
    await pool.close()


async def test_one_episode_cannot_stop_a_run(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of([])
    for _ in range(MOST_LOSSES + 1):
        made.workers.died()
    worker = await made.workers.acquire()
    made.workers.release(worker, worked=None, answered=False)
    made.workers.died()
    with pytest.raises(InfrastructureError, match="10 workers died in a row"):
        await made.workers.acquire()
    await pool.close()


async def test_a_worker_that_is_waited_for_empty_gets_no_more_leases(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of([])
    workers = made.workers
    first, second = await workers.acquire(), await workers.acquire()
    alone = asyncio.create_task(workers.acquire(alone=True))
    await asyncio.sleep(0)
    shared = await workers.acquire()
    reserved = first if shared is second else second
    other = asyncio.create_task(workers.acquire())
    await asyncio.sleep(0)
    assert not alone.done()
    assert not other.done()
    workers.release(reserved, worked=True)
    assert await alone is reserved
    assert not other.done(), "nobody joins it"
    workers.release(reserved, worked=True)
    assert await other is reserved

    waiting = asyncio.create_task(workers.acquire(alone=True))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not any(worker.reserved for worker in workers.live), "one that is no longer waited for is free again"
    await pool.close()


async def test_a_cancelled_tree_counts_each_of_its_episodes(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of([])
    hold = asyncio.Event()
    made.play = lambda worker, lease: hold.wait()
    stats, options = RunStats(), RunOptions(group_size=5)
    request = EpisodeRequest(TASKS[0], 0, 0, "", "group", ENV, {})
    tree = pool.play_tree(request, StateValues(rollouts=1), OracleAgent(), options, stats)
    playing = asyncio.create_task(tree)
    for _ in range(30):
        await asyncio.sleep(0)
    assert pool.open == 5
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert pool.counts == Counter(drawn=5, cancelled=5)
    assert stats.outcomes[Outcome.CANCELLED] == 5
    assert pool.open == 0
    await pool.close()


def test_a_worker_keeps_a_strategy_with_what_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    turn = SimpleNamespace(sent=True)
    stored = SimpleNamespace(trainable=True, success=True, turns=(turn, turn))

    def load(store: str) -> list[Any]:
        reads.append(store)
        return [stored]

    monkeypatch.setattr(branching_restart, "load_episodes", load)
    worker, strategy = Worker(), branching_restart.PrefixRestarts(store="s")
    for _ in range(3):
        assert len(worker._object(pickle.dumps(strategy)).prefixes) == 1
    assert reads == ["s"], "a store is read once, not for each task"
    for number in range(3 * KEPT):
        worker._object(pickle.dumps(StateValues(rollouts=number + 1)))
    assert len(worker._kept) == 2 * KEPT, "a worker does not grow with the strategies of a run"


async def test_an_agent_is_sent_again_only_to_a_worker_that_does_not_have_it(cluster_pool_of: Any) -> None:
    pool, made = await cluster_pool_of([])
    worker, sent = made.workers.live[0], list[str]()
    lease = Lease(EpisodeRequest(TASKS[0], 0, 0, "g-0", "g", ENV, {}), 1, "digest", RunOptions())
    data = lease.packed(pickle.dumps(lease.options))
    assert Lease.unpacked(data, pickle.loads) == lease
    assert Played.unpacked(await Worker().play(data)) == Played(lease.key, unknown=True)

    async def learn(digest: str, agent: Any) -> None:
        sent.append("agent")

    async def play(data: bytes) -> bytes:
        sent.append("lease")
        return Played(lease.key, unknown=sent.count("lease") == 3).packed()

    worker.actor.learn, worker.channel.play = _Method(learn), play
    for _ in range(3):
        assert not (await pool._answer(made.workers, worker, lease, "reference")).unknown
    assert sent == ["agent", "lease", "lease", "lease", "agent", "lease"], "the third time, the worker has forgotten it"
    await pool.close()
