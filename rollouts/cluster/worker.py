"""The worker: an actor on a Ray cluster that plays whole episodes, with the code that plays them locally."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
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
from .node import extend_path, first_line, opened_pool, used_memory

KEPT = 4
"""Number of agents that a worker keeps; of options and strategies together, twice as many."""


class Worker:
    """Plays leased episodes. Ray makes it an actor, whose methods run in one event loop."""

    def __init__(self) -> None:
        self._setup: WorkerSetup | None = None
        self._agents: OrderedDict[str, Agent] = OrderedDict()
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._playing: dict[str, asyncio.Task[Played]] = {}
        self._hedged = 0

    async def versions(self) -> dict[str, str]:
        """Return the versions that must equal the driver's, the process id, and the node's id and address."""
        node, address = ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()
        return versions() | {"pid": str(os.getpid()), "node": str(node), "address": str(address)}

    async def open(self, path: Sequence[str], setup: bytes) -> str:
        """Receive what all episodes share; return an error in one line, or nothing.

        Args:
            path: folders from which the driver imports; see ``extend_path``.
            setup: a pickled ``WorkerSetup``.
        """
        extend_path(path)
        try:
            self._setup = cloudpickle.loads(setup)
            self._pool = await asyncio.to_thread(opened_pool, self._setup)  # it may connect to servers
            self._connection = PolicyConnection(self._setup.service, self._setup.key)
            self._slots = asyncio.Semaphore(self._setup.seats)
            host = await self._pool.take()
            self._pool.give(host, reusable=True)
        except Exception as error:
            return first_line(f"{type(error).__name__}: {error}")
        return ""

    async def play(self, data: bytes, agents: Sequence[Any] = ()) -> bytes:
        """Play a lease to its end, and return a pickled ``Played``.

        Args:
            data: the packed lease.
            agents: reference to the bytes of the agent, in a list, so that Ray fetches it only if it is needed; nothing
                for an agent that this worker should have.
        """
        lease = Lease.unpacked(data, self._object)
        if not agents and lease.agent not in self._agents:
            return pickle.dumps(Played(lease.key, unknown=True))
        task = self._playing[lease.key] = asyncio.create_task(self._played(lease, agents), name=lease.key)
        try:
            done = await task
        except asyncio.CancelledError:
            done = Played(lease.key, error=("", "cancelled"))
        finally:
            self._playing.pop(lease.key, None)
        return pickle.dumps(done)

    async def cancel(self, keys: Sequence[str]) -> None:
        """Stop leases, and wait until nothing of them runs."""
        tasks = [self._playing[key] for key in keys if key in self._playing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ping(self, measure: bool = False) -> tuple[int, int]:
        """Return the number of leases that are played and, to ``measure``, the bytes of memory that all this uses."""
        return len(self._playing), await asyncio.to_thread(used_memory) if measure else 0

    async def close(self) -> None:
        """Stop everything, and close the environments."""
        await self.cancel(list(self._playing))
        with contextlib.suppress(Exception):
            await self._pool.close()
            await self._connection.close()

    async def _played(self, lease: Lease, agents: Sequence[Any]) -> Played:
        stats = RunStats()
        try:
            agent = await self._agent(lease.agent, agents)
            if lease.strategy is None:
                episodes = [await play_request(lease.request, self._pool, agent, lease.options, stats)]
            else:
                strategy = self._object(lease.strategy)
                episodes = await play_tree(
                    lease.request, self._pool, strategy, agent, lease.options, stats, self._slots
                )
            hedged, self._hedged = self._pool.resets.hedged - self._hedged, self._pool.resets.hedged
            return Played(lease.key, pack(episodes), stats.retries, stats.failures, hedged=hedged)
        except TurnwiseError as error:
            return Played(lease.key, error=(type(error).__name__, str(error)))

    def _object(self, data: bytes) -> Any:
        """Return options or a strategy, the same object for the same bytes."""
        if data not in self._kept:
            self._kept[data] = cloudpickle.loads(data)
        self._kept.move_to_end(data)
        while len(self._kept) > 2 * KEPT:
            self._kept.popitem(last=False)
        return self._kept[data]

    async def _agent(self, digest: str, agents: Sequence[Any]) -> Agent:
        if digest not in self._agents:
            data = await agents[0]
            if digest not in self._agents:  # another lease may have unpacked it meanwhile
                try:
                    self._agents[digest] = unpacked_agent(data, self._connection)
                except Exception as error:
                    raise ContractError(
                        f"a worker cannot unpack the agent: {type(error).__name__}: {error}; install what it needs "
                        "there, or set rollouts.runtime_env"
                    ) from error
        self._agents.move_to_end(digest)
        while len(self._agents) > KEPT:
            self._agents.popitem(last=False)
        return self._agents[digest]
