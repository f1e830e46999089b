"""Nodes of a Ray cluster: what each can do, and what happens when one fails, fills, drains or joins."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.scripted import FunctionAgent, OracleAgent
from turnwise.commands import cluster as command
from turnwise.errors import UsageError
from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.options import RolloutsConfig
from turnwise.tasks.family import SeededFamily

ray = pytest.importorskip("ray", reason="turnwise[ray] is not installed")
from turnwise.rollouts.cluster.check import NodeReport, Wanted, check_nodes, missing  # noqa: E402
from turnwise.rollouts.cluster.keeper import awaited  # noqa: E402
from turnwise.rollouts.cluster.pool import ClusterPool  # noqa: E402
from turnwise.rollouts.cluster.room import room_of  # noqa: E402

from .ray_cluster import ENV, LIMIT, NODE, STORE, on, played, slow_oracle, tasks  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")]


class Picky(tw.TurnEnv):
    """Starts anywhere but on one node; over after three turns."""

    def __init__(self, bad: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bad = bad

    @classmethod
    def tasks(cls) -> Any:
        """Tasks of seeds only."""
        return SeededFamily("Picky")

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        """Fail on the bad node."""
        if self.bad and node_here() == self.bad:
            raise RuntimeError("no sandbox on this node")
        return "hello"

    def act(self, action: tw.Action) -> Any:
        """Count to three."""
        return tw.success("done", 1.0) if self.turn >= 3 else tw.running("go on")


def node_here() -> str:
    """The id of the node that this process runs on."""
    return str(ray.get_runtime_context().get_node_id())


def node_with(resource: str) -> str:
    """The id of the node that declares a resource."""
    return next(str(node["NodeID"]) for node in ray.nodes() if node["Alive"] and resource in node["Resources"])


# -- before a run -------------------------------------------------------------------------------------------------


async def test_each_node_reports_what_it_can_do(cluster: Any) -> None:
    reports = await check_nodes(Wanted(on(), ENV, task=tasks(1)[0]))

    assert [report.head for report in reports] == [True, False], "one line per node, the head first"
    for report in reports:
        assert report.look is not None
        assert report.look.versions == {"Python": platform.python_version(), "Turnwise": tw.__version__}
        assert report.count("CPU") == report.workers == 2
        assert report.lacks == ()
        assert 0 < report.look.memory[0] <= report.look.memory[1]
        assert set(report.look.lacks) == {"bubblewrap", "docker", "podman", "Chromium"}
    assert missing(reports, on(), "maze") == ""
    assert missing(reports, on(workers=5), "maze") == (
        "the cluster has room for 4 of the 5 workers of maze (rollouts.workers)"
    )


@pytest.mark.slow
@pytest.mark.shift
async def test_a_node_that_cannot_start_an_episode_is_named(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = Wanted(on(), Picky, env_kwargs={"bad": node_with("second")}, task=tw.TaskSpec("Picky"))

    reports = await check_nodes(wanted)

    assert [bool(report.lacks) for report in reports] == [False, True]
    said = missing(reports, on(), "picky")
    assert said.startswith("1 of 2 nodes cannot play picky: ")
    assert "no sandbox on this node" in said
    assert "\n" not in said
    spared = await check_nodes(Wanted(on(resources={"head": 1.0}), Picky, env_kwargs=wanted.env_kwargs))
    assert [report.workers for report in spared] == [1, 0]
    assert not any(report.lacks for report in spared), "a node without room for a worker need not play"


def test_the_command_prints_a_line_for_each_node(cluster: Any, capfd: pytest.CaptureFixture[str]) -> None:
    command.check(None, "", "auto", as_json=False)

    lines = capfd.readouterr().out.strip().splitlines()
    assert len(lines) == 3
    assert "(head)" in lines[1]
    assert all(platform.python_version() in line and tw.__version__ in line for line in lines[1:])


def test_room_is_what_the_scarcest_resource_leaves() -> None:
    assert room_of({"CPU": 8.0, "memory": 5.0}, {"CPU": 1.0, "memory": 2.0}, 64) == 2
    assert room_of({"CPU": 8.0}, {"CPU": 1.0, "GPU": 1.0}, 64) == 0
    assert room_of({"CPU": 0.9}, {"CPU": 0.3}, 64) == 3, "0.9 / 0.3 is just below 3"
    assert room_of({}, {"CPU": 0.0}, 7) == 7, "a worker that needs nothing fits everywhere"


def test_a_node_that_gives_no_answer_is_lacking() -> None:
    report = NodeReport("10.0.0.3", False, {"CPU": 2.0}, 2, None, ("gave no answer within 120 s",))
    said = missing([report], RolloutsConfig(), "maze")
    assert said == "1 of 1 nodes cannot play maze: 10.0.0.3 gave no answer within 120 s"
    assert "?" in str(list(command.nodes([report], "maze").columns[1].cells))


# -- while a run goes on ------------------------------------------------------------------------------------------


@pytest.mark.shift("ray")
async def test_a_worker_over_its_memory_ends_after_its_episodes(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.rollouts.cluster.keeper.PINGS", 200)  # so twice a second, and patient
    first: Any = pool_of(on(workers=1), ENV)
    await played(first, OracleAgent(), tasks(1))
    _, used = await awaited(first.workers[0].actor.ping.remote(measure=True))
    await first.close()
    own: Any = pool_of(on(workers=2, worker_memory=used + 60e6, worker_timeout=100.0), ENV)

    there = await played(own, FunctionAgent(factory=leaking), tasks(24, level=2))

    assert own.counters["ray/retired"] > 0, "a worker that leaks must be replaced"
    assert own.counters["ray/deaths"] == 0
    assert own.counts == Counter(drawn=48, ended=48), "its episodes end where they began: none is lost, none moves"
    assert len({episode.episode_id for episode in there}) == len(there) == 48
    assert all(episode.attempts == 1 for episode in there)
    await own.close()


def leaking(context: Any) -> Any:
    """An oracle whose process grows by 8 MB an episode."""
    vars(sys).setdefault("_leak", []).append(os.urandom(8_000_000))
    return slow_oracle(context)


async def test_a_worker_that_is_too_large_from_the_start_is_refused(cluster: Any) -> None:
    own = pool_of(on(workers=1, worker_memory=1e6), ENV)
    with pytest.raises(UsageError, match=r"a worker occupies .* GB before its first episode, and rollouts.worker_mem"):
        await played(own, OracleAgent(), tasks(1))
    await own.close()


@pytest.mark.slow
@pytest.mark.shift
async def test_episodes_leave_a_node_on_which_all_fail(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    own: Any = pool_of(on(workers=4, episodes_per_worker=2), Picky, env_kwargs={"bad": node_with("second")})
    wanted = [tw.TaskSpec("Picky", seed=seed) for seed in range(60)]

    with caplog.at_level(logging.WARNING, logger="turnwise"):
        there = await played(own, FunctionAgent(factory=hesitant), wanted, group_size=1, retries=0)

    assert {str(episode.outcome) for episode in there} == {"completed"}, "what failed on one node was played on another"
    assert len({episode.episode_id for episode in there}) == len(there) == 60
    assert own.counts["moved"] > 0
    assert own.counts["drawn"] == own.counts["ended"] == 60
    assert own.counters["ray/resting"] == 1
    said = [record.message for record in caplog.records if "rests for" in record.message]
    assert len(said) == 1, said
    assert own.counts["moved"] < 20, "a node that rests gets no more episodes"
    await own.close()


def hesitant(context: Any) -> Any:
    """An agent that says one word, and needs 0.1 s a turn."""

    async def act(observation: str) -> str:
        await asyncio.sleep(0.1)
        return "hi"

    return act


@pytest.mark.shift("ray")
async def test_the_workers_follow_nodes_that_join_drain_and_leave(cluster: Any) -> None:
    own = pool_of(on(workers_per_node=1, resources={"CPU": 1.0}, episodes_per_worker=2), ENV)
    assert isinstance(own, ClusterPool)
    run = asyncio.create_task(played(own, FunctionAgent(factory=slow_oracle), tasks(200, level=2)))
    await until(lambda: len(own.workers) == 2)
    width = own.width

    third = cluster.add_node(num_cpus=2, object_store_memory=STORE, node_ip_address=NODE, resources={"third": 1.0})
    await until(lambda: len(own.workers) == 3)
    assert (width, own.width) == (4, 6), "a node that joins widens the run"
    joined = node_with("third")
    await until(lambda: any(worker.leases for worker in own.workers if worker.node == joined))
    drain(cluster.address, joined)
    await until(lambda: all(worker.node != joined for worker in own.workers))
    assert own.counts["lost"] == 0, "episodes on a draining node end there"
    cluster.remove_node(third)
    await asyncio.sleep(0)
    there = await run

    assert len({episode.episode_id for episode in there}) == len(there) == 400
    assert own.counts == Counter(drawn=400, ended=400)
    assert all(episode.attempts == 1 for episode in there)
    await own.close()


async def until(state: Callable[[], bool]) -> None:
    """Wait for something that the cluster does."""
    async with asyncio.timeout(LIMIT):
        while not state():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def drain(address: str, node: str) -> None:
    """Announce that a node leaves, as ``ray drain-node`` and autoscalers do."""
    gcs = ray._raylet.GcsClient(address=address)
    accepted, why = gcs.drain_node(node, 2, "the test wants it", (time.time_ns() // 10**6) + 600_000)
    assert accepted, why
