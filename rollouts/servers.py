"""``Servers``: the servers of a remote environment. A new host goes where the smallest share of places is taken."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterable

from ..envs.remote.address import Address, remote_id, servers_of
from ..envs.remote.connection import connection_to
from ..envs.remote.outages import report_lost
from ..errors import InfrastructureError
from .host_socket import SocketHost, places_at
from .hosts import Host

REST = 30.0
"""Seconds in which a server that was lost gets no new host."""
LOOK = 1.0
"""Seconds between two looks for a server that is back, while all places are taken."""


class Servers:
    """One or several servers of the same environment, for the hosts of a pool.

    Args:
        id: ``turnwise://host:port/ID``, or ``turnwise://host:port,host:port/ID`` for several.

    Raises:
        UsageError: the id is malformed, or a server refuses the token or the version.
        InfrastructureError: no server can be reached.
    """

    def __init__(self, id: str) -> None:
        self._ids = {remote_id(each)[0]: each for each in servers_of(id)}
        self._places = self._reached()
        shuffled = random.Random().sample(list(self._ids), len(self._ids))
        self._ids = {
            each: self._ids[each] for each in shuffled
        }  # among equal ones, workers of a cluster choose different
        self._rested: dict[Address, float] = {}
        self._digest: str | None = None
        self._changed = asyncio.Event()
        self.line = asyncio.Lock()
        """Held by the pool from the choice of a server until the host counts as taken."""

    @property
    def places(self) -> int:
        """Number of episodes that all servers play at a time."""
        return sum(self._places.values())

    async def open(self, hosts: Iterable[Host]) -> SocketHost | None:
        """Return a host on a server that has room; ``None`` if one of the pool's hosts must come back first.

        Args:
            hosts: open hosts of the pool.

        Raises:
            InfrastructureError: the pool has no host, and no server can be reached.
            UsageError: a server has another version of the environment than the pool's first host.
        """
        taken = Counter(host.connection.address for host in hosts if isinstance(host, SocketHost))
        problem: InfrastructureError | None = None
        for address in self._with_room(taken) or ([] if taken else list(self._ids)):
            try:
                host = await SocketHost.open(self._ids[address], self._digest)
                self._places.setdefault(address, (await connection_to(address).hello()).capacity)
            except InfrastructureError as error:
                problem = problem or error
                self._rested[address] = time.monotonic()
                self._report(address, error)
            else:
                self._digest = host.digest
                return host
        if problem is not None and not taken:
            raise problem
        return None

    async def change(self) -> None:
        """Wait until a host came back, or for ``LOOK`` seconds."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await self._changed.wait()

    def returned(self, host: Host, free: list[Host]) -> None:
        """Note that a host came back; if its server is lost, remove that server's hosts from the free ones."""
        self._changed.set()
        if isinstance(host, SocketHost) and host.connection.lost:
            self._rested[host.connection.address] = time.monotonic()
            for each in [other for other in free if isinstance(other, SocketHost)]:
                if each.connection is host.connection:
                    free.remove(each)
                    each.abandon()

    def _reached(self) -> dict[Address, int]:
        """Return the places of each server that answers."""
        places, problems = {}, {}
        for address in self._ids:
            try:
                places[address] = places_at(address)
            except InfrastructureError as error:
                problems[address] = error
        if not places:
            raise InfrastructureError(" and ".join(map(str, problems.values())))
        for address, problem in problems.items():
            self._report(address, problem)
        return places

    def _report(self, address: Address, problem: Exception) -> None:
        others = "; its tasks go to the others" if len(self._ids) > 1 else ""
        report_lost(address, f"lost a server{others}: {problem}")

    def _with_room(self, taken: Counter[Address]) -> list[Address]:
        """Return the servers with a free place that are not lost, by the share of their places that is taken."""
        room = [each for each in self._ids if taken[each] < self._places.get(each, 1) and not self._rests(each)]
        used = {each: max(taken[each], connection_to(each).load) for each in room}  # others' episodes and forks, too
        return sorted(room, key=lambda each: used[each] / self._places.get(each, 1))

    def _rests(self, address: Address) -> bool:
        return time.monotonic() - self._rested.get(address, -REST) < REST
