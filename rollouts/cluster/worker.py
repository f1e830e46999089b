"""The worker: an actor on a Ray cluster that plays whole episodes, with the code that plays them locally."""

from __future__ import annotations

import asyncio
import contextlib
import os
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import cloudpickle
import ray

from ...agents.agent import Agent
from ...errors import ContractError, TurnwiseError
from ...inference.policy_service import PolicyConnection
from ..branching import play_tree
from ..packed import pack
from ..playing import play_request
from ..stats import RunStats
from .agents import unpacked_agent
from .lease import Lease, Played, WorkerSetup, versions
from .lease_channel import LeaseServer
from .node import extend_path, first_line, opened_pool, used_memory

KEPT = 4
"""Number of agents that a worker keeps; of options and strategies together, twice as many."""


class Worker:
    """Plays leased episodes. Ray makes it an actor, whose methods run in one event loop; leases come by a socket."""

    def __init__(self) -> None:
        self._setup: WorkerSetup | None = None
        self._agents: OrderedDict[str, Agent] = OrderedDict()
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._leases = LeaseServer(self.play)
        self._hedged = 0
        self._slots: asyncio.Semaphore | None = None

    async def versions(self) -> dict[str, str]:
        """Return the versions that must equal the driver's, the process id, and the node's id and address."""
        node, address = ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()
        return versions() | {"pid": str(os.getpid()), "node": str(node), "address": str(address)}

    async def open(self, path: Sequence[str], setup: bytes) -> tuple[str, int]:
        """Receive what all episodes share; return an error in one line, or nothing, and the port for leases.

        Args:
            path: folders from which the driver imports; see ``extend_path``.
            setup: a pickled ``WorkerSetup``.
        """
        extend_path(path)
        try:
            self._setup = cloudpickle.loads(setup)
            self._pool = await asyncio.to_thread(opened_pool, self._setup)  # it may connect to servers
            self._connection = PolicyConnection(self._setup.service, self._setup.key)
            host = await self._pool.take()
            self._pool.give(host, reusable=True)
            return "", await self._leases.open(str(ray.util.get_node_ip_address()), self._setup.key)
        except Exception as error:
            return first_line(f"{type(error).__name__}: {error}"), 0

    async def learn(self, digest: str, data: bytes) -> tuple[str, str] | None:
        """Receive an agent; return class and message of an error, if there is one.

        Args:
            digest: its digest.
            data: its bytes.
        """
        try:
            if digest not in self._agents:
                self._agents[digest] = unpacked_agent(data, self._connection)
        except Exception as error:
            return ContractError.__name__, (
                f"a worker cannot unpack the agent: {type(error).__name__}: {error}; install what it needs there, or "
                "set rollouts.runtime_env"
            )
        self._agents.move_to_end(digest)
        while len(self._agents) > KEPT:
            self._agents.popitem(last=False)
        return None

    async def play(self, data: bytes) -> bytes:
        """Play a packed lease to its end, and return a packed ``Played``."""
        key = ""
        try:
            lease = Lease.unpacked(data, self._object)
            key = lease.key
            played = await self._played(lease) if lease.agent in self._agents else Played(key, unknown=True)
        except TurnwiseError as error:
            played = Played(key, error=(type(error).__name__, str(error)))
        except Exception:  # a defect of Turnwise
            played = Played(key, error=("", traceback.format_exc()))
        return played.packed()

    async def ping(self, measure: bool = False) -> tuple[int, int]:
        """Return the number of leases that are played and, to ``measure``, the bytes of memory that all this uses."""
        return len(self._leases.playing), await asyncio.to_thread(used_memory) if measure else 0

    async def close(self) -> None:
        """Stop everything, and close the environments."""
        await self._leases.close()
        with contextlib.suppress(Exception):
            await self._pool.close()
            await self._connection.close()

    async def _played(self, lease: Lease) -> Played:
        stats, agent = RunStats(), self._agents[lease.agent]
        self._agents.move_to_end(lease.agent)
        if lease.strategy is None:
            episodes = [await play_request(lease.request, self._pool, agent, lease.options, stats)]
        else:
            strategy, slots = self._object(lease.strategy), self._path_slots()
            episodes = await play_tree(lease.request, self._pool, strategy, agent, lease.options, stats, slots)
        hedged, self._hedged = self._pool.resets.hedged - self._hedged, self._pool.resets.hedged
        return Played(lease.key, pack(episodes), stats.retries, stats.failures, hedged=hedged)

    def _path_slots(self) -> asyncio.Semaphore:
        """Return the slots of the paths of all trees: as many as forks fit in the worker's part of environment servers.

        From the first tree on, new episodes leave half of the servers' places to forks.
        """
        if self._slots is None:
            assert self._setup is not None, "a worker is opened before its first lease"
            forks = self._pool.keep_for_forks(self._setup.workers)
            self._slots = asyncio.Semaphore(min(self._setup.seats, forks))
        return self._slots

    def _object(self, data: bytes) -> Any:
        """Return options or a strategy, the same object for the same bytes."""
        if data not in self._kept:
            self._kept[data] = cloudpickle.loads(data)
        self._kept.move_to_end(data)
        while len(self._kept) > 2 * KEPT:
            self._kept.popitem(last=False)
        return self._kept[data]
