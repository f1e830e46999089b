"""Sandboxes of workers: none is left when a run has ended well."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from turnwise.agents.scripted import OracleAgent
from turnwise.envs.registry import make
from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.episode import Outcome
from turnwise.sandboxes.bubblewrap.backend import BubblewrapBackend
from turnwise.sandboxes.bubblewrap.cgroups import here

from .ray_cluster import on, played

CODE = "turnwise/CodeSynthesis-v1"


def things_of(pids: list[int]) -> list[str]:
    """Temporary folders and control groups of the sandboxes of processes."""
    folders = [Path(tempfile.gettempdir()).glob(f"turnwise-{pid}-*") for pid in pids]
    groups = [mount.rglob(f"turnwise-{pid}-*") for mount in here().mounts for pid in pids]
    return sorted(str(path) for paths in (*folders, *groups) for path in paths)


@pytest.mark.shift("ray")
async def test_a_run_that_ends_well_leaves_no_warm_sandbox(cluster: Any) -> None:
    backend = BubblewrapBackend()
    found = await backend.probe()
    await backend.close()
    if not found.available:
        pytest.skip(f"NOT TESTED with bubblewrap: {found.why}")
    env = make(CODE)
    family = env.get_wrapper_attr("tasks")()
    env.close()
    own: Any = pool_of(on(episodes_per_worker=2), CODE)
    tasks = [family.spec(seed, level=1, split="train") for seed in range(4)]
    there = await played(own, OracleAgent(), tasks, group_size=1)
    pids = [worker.pid for worker in own.workers]
    before = things_of(pids)
    await own.close()
    assert [episode.outcome for episode in there] == [Outcome.COMPLETED] * 4
    assert before, "workers keep sandboxes ready, so that this test can see one that stays"
    assert things_of(pids) == []
