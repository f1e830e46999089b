"""Rollouts on a real Ray cluster of two nodes: the local engine's episodes, each exactly once, whatever dies."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import random
import re
import shutil
import signal
import site
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.scripted import FunctionAgent, MixedAgent, OracleAgent
from turnwise.errors import ContractError, UsageError
from turnwise.rollouts.branching import branch_episodes
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.options import RolloutsConfig, RunOptions
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.stats import RunStats

ray = pytest.importorskip("ray", reason="turnwise[ray] is not installed")
from turnwise.rollouts.cluster import keeper as cluster_keeper  # noqa: E402
from turnwise.rollouts.cluster import pool as cluster_pool  # noqa: E402
from turnwise.rollouts.cluster.circuit import Circuit  # noqa: E402
from turnwise.rollouts.cluster.keeper import LiveWorker  # noqa: E402
from turnwise.rollouts.cluster.lease import versions  # noqa: E402
from turnwise.rollouts.cluster.pool import ClusterPool  # noqa: E402
from turnwise.rollouts.cluster.waiters import Waiters  # noqa: E402
from turnwise.rollouts.cluster.workers import Workers  # noqa: E402

from .ray_cluster import ENV, LIMIT, NODE, STORE, on, played, slow_oracle, some_ended, tasks, timeless  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")]


async def test_the_episodes_are_those_of_the_local_engine(pool: ClusterPool) -> None:
    agent, stats = MixedAgent([0.0, 0.5, 1.0]), RunStats()

    there = await played(pool, agent, tasks(8), stats)

    assert timeless(there) == timeless(await played(ENV, agent, tasks(8))), "an engine must not change an episode"
    assert {worker.pid for worker in pool.workers}.isdisjoint({os.getpid()})
    assert pool.counts == Counter(drawn=16, ended=16)
    assert stats.episodes == 16
    host = await pool.take()
    assert await host.reset(tasks(1)[0]), "the pool still lends environments of this process"
    pool.give(host, reusable=True)


async def test_a_tree_by_an_agent_without_forks_fails_as_it_does_locally(pool: ClusterPool) -> None:
    async def forked(env: Any) -> list[Episode]:
        options = RunOptions(seed=3, group_size=2)
        run = branch_episodes(env, OracleAgent(), tasks(2), strategy=StateValues(rollouts=1), options=options)
        async with asyncio.timeout(LIMIT), aclosing(run) as episodes:
            return sorted([episode async for episode in episodes], key=lambda episode: episode.episode_id)

    with pytest.raises(UsageError, match="cannot continue from the middle of an episode"):
        await forked(pool)

    assert pool.counts["drawn"] <= 4


async def test_every_episode_is_counted_once_while_workers_are_killed_at_random(pool: ClusterPool) -> None:
    rng, kills, wanted, stats = random.Random(4), 0, tasks(60, level=2), RunStats()
    agent = FunctionAgent(factory=slow_oracle)

    async def kill() -> None:
        nonlocal kills
        while True:
            await asyncio.sleep(rng.uniform(0.3, 0.9))
            if pool.workers and kills < 6:
                os.kill(rng.choice(pool.workers).pid, signal.SIGKILL)
                kills += 1

    killing = asyncio.create_task(kill())
    there = await played(pool, agent, wanted, stats)
    killing.cancel()

    assert kills >= 2, "the test must kill workers in the middle of the run"
    assert pool.counts["lost"] > 0, "some episodes must have lost their worker"
    ids = Counter(episode.episode_id for episode in there)
    assert len(ids) == 120, "no episode may be lost"
    assert set(ids.values()) == {1}, "no episode may be counted twice"
    assert pool.counts["drawn"] == pool.counts["ended"] + pool.open, "drawn must be ended and open"
    assert all(episode.outcome is Outcome.COMPLETED for episode in there)
    assert timeless(there) == timeless(await played(ENV, agent, wanted)), "an episode that is played again is the same"


@pytest.mark.shift("ray")
async def test_a_run_survives_the_death_of_a_node(cluster: Any) -> None:
    third = {"num_cpus": 2, "object_store_memory": STORE, "resources": {"third": 2.0}, "node_ip_address": NODE}
    node = cluster.add_node(**third)
    own = pool_of(on(resources={"CPU": 1.0, "third": 1.0}), ENV)
    assert isinstance(own, ClusterPool)
    try:
        run = asyncio.create_task(played(own, FunctionAgent(factory=slow_oracle), tasks(12)))
        await some_ended(own)
        cluster.remove_node(node, allow_graceful=False)
        again = cluster.add_node(**third)
        there = await run
    finally:
        await own.close()

    assert len({episode.episode_id for episode in there}) == len(there) == 24
    assert own.counts["drawn"] == own.counts["ended"] == 24
    assert own.counts["lost"] > 0, "episodes on the dead node must have been played again"
    cluster.remove_node(again)


@pytest.mark.shift("ray")
async def test_an_episode_that_kills_every_worker_is_given_up_and_counted(
    pool: ClusterPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_pool, "MOST_LOSSES", 1)
    agent = FunctionAgent(factory=deadly)

    there = await played(pool, agent, tasks(2), group_size=1)

    assert [episode.outcome for episode in there] == [Outcome.INFRA_FAILED] * 2
    assert all("2 workers died while they played this episode" in str(episode.error) for episode in there)
    assert [episode.after_action for episode in there] == [2, 2], "it may have been the agent's own action"


def deadly(context: Any) -> Any:
    """An agent that ends the process that it runs in."""

    def act(observation: str) -> Any:
        os._exit(7)

    return act


@pytest.mark.shift("ray")
async def test_an_early_end_stops_the_workers_episodes(pool: ClusterPool) -> None:
    agent = FunctionAgent(factory=slow_oracle)
    options = RunOptions()
    async with asyncio.timeout(LIMIT), aclosing(run_episodes(pool, agent, tasks(20), options=options)) as run:
        await anext(run)

    assert pool.open == 0
    pings = [worker.actor.ping.remote() for worker in pool.workers]
    assert set(await asyncio.gather(*(cluster_keeper.awaited(each) for each in pings))) == {(0, 0)}


@pytest.mark.slow
@pytest.mark.shift
async def test_an_agents_bug_stops_the_run_with_its_error(pool: ClusterPool) -> None:
    with pytest.raises(ContractError, match=r"agent FunctionAgent, in turn 0 of episode .* raised ZeroDivisionError"):
        await played(pool, FunctionAgent(factory=broken), tasks(2))


def broken(context: Any) -> Any:
    """An agent with a bug."""
    return lambda observation: 1 / 0


@pytest.mark.shift("ray")
async def test_a_worker_that_gives_no_sign_of_life_is_replaced(cluster: Any) -> None:
    own = pool_of(on(worker_timeout=8.0), ENV)
    assert isinstance(own, ClusterPool)
    run = asyncio.create_task(played(own, FunctionAgent(factory=slow_oracle), tasks(20, level=2)))
    await some_ended(own)

    busy = max(own.workers, key=lambda worker: worker.leases)
    os.kill(busy.pid, signal.SIGSTOP)  # alive, and silent
    there = await run

    assert len({episode.episode_id for episode in there}) == 40
    assert own.counts["lost"] > 0
    await own.close()


# -- bad input ----------------------------------------------------------------------------------------------------


async def test_a_worker_that_has_just_died_gets_no_more_episodes() -> None:
    config, idle = on(workers=2), Waiters()
    workers = Workers.__new__(Workers)
    workers._config, workers._fatal, workers._changed = config, None, idle
    workers._choosy, workers.nodes = 0, Circuit()
    dead, alive = LiveWorker(None, 2, 1), LiveWorker(None, 2, 2)
    workers.live, alive.leases = [dead, alive], 1
    dead.lost.set_result("killed")
    assert await workers.acquire() is alive, "although the dead one has fewer leases until its keeper has noticed"


def test_without_ray_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(UsageError, match=r"needs Ray: pip install 'turnwise\[ray\]'"):
        pool_of(RolloutsConfig(engine="ray"), ENV)


def test_resources_that_do_not_exist(cluster: Any) -> None:
    with pytest.raises(UsageError, match=r"no node of the cluster has the resource 'TPU'; its nodes have CPU, head"):
        pool_of(on(resources={"TPU": 1.0}), ENV)
    with pytest.raises(UsageError, match=r"no node of the cluster has 1 head, 1 second, which rollouts.resources asks"):
        pool_of(on(resources={"head": 1.0, "second": 1.0}), ENV)


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("what", ["Python", "Turnwise"])
async def test_another_version_on_the_workers_is_refused_with_both_named(
    cluster: Any, tmp_path: Path, what: str
) -> None:
    here = versions()[what]
    there, runtime_env = another_python() if what == "Python" else another_turnwise(tmp_path)
    assert there != here
    own = pool_of(on(workers=1, runtime_env=runtime_env), ENV)

    said = f"the workers have {what} {re.escape(there)} and the driver has {re.escape(here)}: "
    with pytest.raises(UsageError, match=said):
        await played(own, OracleAgent(), tasks(1))

    await own.close()


def another_python() -> tuple[str, dict[str, Any]]:
    """Return the version of another interpreter of the same series, which can load this one's packages; and an
    environment of workers that it runs. Ray's own check of versions is only a warning in a worker.
    """
    path = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not os.access(path, os.X_OK):
        pytest.skip(f"{path} is not there")
    question = [path, "-c", "import platform; print(platform.python_version())"]
    found = subprocess.run(question, capture_output=True, text=True, check=True).stdout.strip()
    if found == versions()["Python"]:
        pytest.skip(f"{path} is Python {found}, too")
    packages = [str(Path(tw.__file__).parents[1]), *site.getsitepackages()]
    return found, {"py_executable": path, "env_vars": {"PYTHONPATH": os.pathsep.join(packages)}}


def another_turnwise(folder: Path) -> tuple[str, dict[str, Any]]:
    """Install a copy of the package in a folder, under another version, as a node would have it; return the version and
    an environment of workers that find this copy first.
    """
    number = "0.0.7"
    shutil.copytree(Path(tw.__file__).parent, folder / "turnwise")
    installed = folder / f"turnwise-{number}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: turnwise\nVersion: {number}\n")
    return number, {"env_vars": {"PYTHONPATH": str(folder)}}


@pytest.mark.slow
@pytest.mark.shift
async def test_an_environment_that_the_workers_cannot_import(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        import turnwise as tw
        class Only(tw.TurnEnv):
            def start(self, task, rng): return "hello"
            def act(self, action): return tw.success("done", 1.0)
        """
    (tmp_path / "only_here.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("only_here")
    reachable = pool_of(on(workers=1), module.Only)
    found = await played(reachable, FunctionAgent(factory=silent), tw_tasks(2))
    assert len(found) == 4, "a file beside the driver's other modules is imported by workers of this machine"
    await reachable.close()

    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(tmp_path)])
    own = pool_of(on(workers=1), module.Only)
    with pytest.raises(UsageError, match=r"the workers cannot create the environment .*No module named 'only_here'"):
        await played(own, FunctionAgent(factory=silent), tw_tasks(1))
    await own.close()


def tw_tasks(count: int) -> list[tw.TaskSpec]:
    return [tw.TaskSpec("Only", seed=seed) for seed in range(count)]


def silent(context: Any) -> Any:
    """An agent that says one word."""
    return lambda observation: "hi"
