"""A Ray cluster of two nodes on this machine, and runs on it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.agent import Agent
from turnwise.envs.registry import make
from turnwise.rollouts.episode import Episode
from turnwise.rollouts.options import RolloutsConfig, RunOptions
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.stats import RunStats

ENV = "turnwise/Maze-v0"
NODE = "127.0.0.2"
"""A loopback address that Ray does not replace by the one of the network, as it does with 127.0.0.1."""
STORE = 80_000_000
LIMIT = 150
"""Seconds after which a test counts as hung."""


@contextmanager
def two_nodes() -> Iterator[Any]:
    """Two nodes on the loopback interface, in a folder with a short path that is removed."""
    import ray
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="tw-", dir="/tmp")
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_TMPDIR", folder)
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    node = {"num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False, "node_ip_address": NODE}
    head = node | {"resources": {"head": 1.0}}
    started = Cluster(initialize_head=True, head_node_args=head)
    started.add_node(**node, resources={"second": 4.0})
    ray.init(address=started.address, log_to_driver=False, configure_logging=False, _node_ip_address=NODE)
    yield started
    ray.shutdown()
    started.shutdown()
    patch.undo()
    shutil.rmtree(folder, ignore_errors=True)


def on(**changes: Any) -> RolloutsConfig:
    """Settings of two workers, or of as many per node as the changes say."""
    number = {} if "workers_per_node" in changes else {"workers": 2}
    return RolloutsConfig(**{"engine": "ray", "address": "auto", "episodes_per_worker": 4, **number, **changes})


def tasks(count: int, level: int = 1) -> list[tw.TaskSpec]:
    """The first training mazes."""
    env = make(ENV)
    family = env.get_wrapper_attr("tasks")()
    env.close()
    return [family.spec(seed, level=level, split="train") for seed in range(count)]


async def played(pool: Any, agent: Agent, wanted: Any, stats: RunStats | None = None, **options: Any) -> list[Episode]:
    """All episodes of a run, by their ids."""
    chosen = RunOptions(**{"seed": 3, "group_size": 2, "backoff": 0.0, **options})
    async with asyncio.timeout(LIMIT), aclosing(run_episodes(pool, agent, wanted, options=chosen, stats=stats)) as run:
        return sorted([episode async for episode in run], key=lambda episode: episode.episode_id)


def timeless(episodes: list[Episode]) -> list[Episode]:
    """The same without what differs between two runs of one engine."""
    return [
        replace(
            episode,
            seconds=0.0,
            attempts=1,
            redrawn=0,
            turns=tuple(replace(turn, seconds_policy=0.0, seconds_env=0.0) for turn in episode.turns),
        )
        for episode in episodes
    ]


def alive() -> list[str]:
    """States of the actors that have not ended, as the cluster knows them."""
    import ray

    found: list[str] = []
    for _ in range(200):  # a killed actor is reported dead a moment later
        found = [actor["State"] for actor in ray._private.state.actors().values() if actor["State"] != "DEAD"]
        if not found:
            break
        time.sleep(0.05)
    return found


async def some_ended(pool: Any) -> None:
    """Wait until the first episodes of a run have ended."""
    while pool.counts["ended"] < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def slow_oracle(context: Any) -> Any:
    """An oracle that needs 20 ms a turn."""

    async def act(observation: str) -> Any:
        await asyncio.sleep(0.02)
        return await context.oracle()

    return act
