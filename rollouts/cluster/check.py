"""Check the nodes of a cluster before a run: their abilities, and missing requirements."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...tasks.spec import TaskSpec
from ..engine import portable_pool
from ..options import Isolation, RolloutsConfig
from ..pool import EnvPool, EnvSource
from .connection import ClusterConnection, Needs
from .keeper import import_error
from .lease import WorkerSetup, versions
from .node import Look, first_line, look
from .room import room_of

ANSWER = 120.0
"""Seconds for a node to start a process that looks around, which may first have to unpack a ``runtime_env``."""
LEAST_DISK = 2**30
"""Free bytes for temporary files below which a node cannot be used."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requirements of a run on its nodes.

    Args:
        rollouts: settings of the rollouts.
        env: environment; ``None`` tries none.
        isolation: place of environments in a worker.
        env_kwargs: arguments of the environment.
        task: task of the episode to start.
        env_timeout: seconds for that.
    """

    rollouts: RolloutsConfig
    env: EnvSource | None = None
    isolation: Isolation = "auto"
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    task: TaskSpec | None = None
    env_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node, and what it lacks.

    Args:
        address: address of the node.
        head: whether it is the head.
        resources: resources that it offers to Ray.
        workers: number of workers that it has room for while it is idle.
        look: its state; ``None`` if it cannot be known.
        lacks: requirements of the run that the node does not meet, in a few words each.
    """

    address: str
    head: bool
    resources: Mapping[str, float]
    workers: int
    look: Look | None
    lacks: tuple[str, ...]

    def count(self, resource: str) -> int:
        """Return the whole number of a resource, such as ``CPU``."""
        return int(self.resources.get(resource, 0.0))

    @property
    def accelerators(self) -> str:
        """Kinds of its GPUs."""
        kinds = [name.partition(":")[2] for name in self.resources if name.startswith("accelerator_type:")]
        return ", ".join(sorted(kinds))


async def check_nodes(wanted: Wanted) -> list[NodeReport]:
    """Return a report of each node of the cluster, the head first.

    Raises:
        UsageError: there is no such cluster, or it cannot be joined.
    """
    setup = _setup(wanted) if wanted.env is not None else b""
    rollouts = wanted.rollouts.model_copy(update={"resources": {}})
    connection = ClusterConnection(rollouts.address, Needs.of_workers(rollouts), object_store=rollouts.object_store)
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        reports = await asyncio.gather(*(_report(node, wanted, setup) for node in nodes))
    finally:
        connection.close()
    return sorted(reports, key=lambda report: (not report.head, report.address))


def missing(reports: list[NodeReport], rollouts: RolloutsConfig, run: str) -> str:
    """Return in one line what the nodes lack for a run; empty if nothing is missing.

    Args:
        reports: the nodes.
        rollouts: settings of the rollouts.
        run: name of the run's configuration.
    """
    lacking = [report for report in reports if report.lacks]
    if lacking:
        each = "; ".join(f"{report.address} {', '.join(report.lacks)}" for report in lacking)
        return f"{len(lacking)} of {len(reports)} nodes cannot play {run}: {each}"
    room = sum(report.workers for report in reports)
    if rollouts.workers_per_node is not None:
        return "" if room else f"no node has room for a worker of {run}, which needs {dict(rollouts.resources)}"
    if room < rollouts.workers:
        return f"the cluster has room for {room} of the {rollouts.workers} workers of {run} (rollouts.workers)"
    return ""


def _setup(wanted: Wanted) -> bytes:
    assert wanted.env is not None
    local = EnvPool.of(wanted.env, isolation=wanted.isolation, env_kwargs=wanted.env_kwargs)
    build = portable_pool(wanted.env, env_kwargs=wanted.env_kwargs).build
    return bytes(cloudpickle.dumps(WorkerSetup(local.env_id, build, local.isolation, local.env_kwargs, ("", 0), "", 1)))


async def _report(node: Mapping[str, Any], wanted: Wanted, setup: bytes) -> NodeReport:
    """Look at a node. One that cannot have a worker need not be able to play."""
    resources = dict(node["Resources"])
    head = "node:__internal_head__" in resources
    rollouts = wanted.rollouts
    room = room_of(resources, rollouts.resources, rollouts.workers_per_node or rollouts.workers)
    plays = setup if room else b""
    options: dict[str, Any] = {
        "num_cpus": 0,
        "max_retries": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
    }
    if rollouts.runtime_env:
        options["runtime_env"] = rollouts.runtime_env
    limit = wanted.env_timeout or ANSWER
    call = ray.remote(look).options(**options).remote(list(sys.path), plays, wanted.task, limit)
    found: Look | None = None
    try:
        async with asyncio.timeout(ANSWER + limit):
            seen: Look = await call
        found, lacks = seen, tuple(_lacks(seen, room * (rollouts.worker_memory or 0)))
    except TimeoutError:
        ray.cancel(call, force=True)
        lacks = (f"gave no answer within {ANSWER + limit:g} s",)
    except RayError as error:
        said = import_error(error)
        lacks = (f"cannot import Turnwise ({said})" if said else f"failed: {first_line(error)}",)
    return NodeReport(str(node["NodeManagerAddress"]), head, resources, room, found, lacks)


def _lacks(found: Look, memory: float) -> list[str]:
    lacks = [
        f"has {name} {found.versions.get(name)} and the driver {own}"
        for name, own in versions().items()
        if found.versions.get(name) != own
    ]
    if found.disk < LEAST_DISK:
        lacks.append(f"has {found.disk / 2**20:.0f} MiB of disk left for temporary files")
    if memory > found.memory[1]:
        lacks.append(
            f"has {found.memory[1] / 1e9:.1f} GB of memory, and its workers may use {memory / 1e9:.1f} "
            "(rollouts.worker_memory)"
        )
    if found.problem:
        lacks.append(f"cannot start an episode ({found.problem})")
    return lacks
