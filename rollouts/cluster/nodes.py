"""Nodes of a cluster as they are now, and the places for workers on them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

from ..options import RolloutsConfig
from .room import room_of


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that are alive.

    Args:
        resources: resources of each node, by its id.
        draining: ids of nodes that are about to leave, as ``ray drain-node`` or an autoscaler announced.
    """

    resources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()


Slot = tuple[str, int]
"""A place for one worker: the id of a node, or nothing for any node, and a number."""


def nodes_now() -> Nodes:
    """Return the nodes of the cluster that this process is connected to."""
    draining: Mapping[str, Any] = {}
    with contextlib.suppress(AttributeError):  # no public function tells it; Ray Serve reads it in the same way
        draining = ray._private.state.state.get_draining_nodes()
    alive = {str(node["NodeID"]): dict(node["Resources"]) for node in ray.nodes() if node["Alive"]}
    return Nodes(alive, frozenset(draining))


def slots_of(config: RolloutsConfig, nodes: Nodes) -> set[Slot]:
    """Return the places for workers: ``workers`` anywhere, or ``workers_per_node`` on each node with room for them."""
    if config.workers_per_node is None:
        return {("", number) for number in range(config.workers)}
    return {
        (node, number)
        for node, resources in nodes.resources.items()
        if node not in nodes.draining
        for number in range(room_of(resources, config.resources, config.workers_per_node))
    }
