"""``Servers``: the servers of a remote environment. A new host goes where the smallest share of places is taken."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable

from ..envs.remote.address import Address, remote_id, servers_of
from ..errors import InfrastructureError
from ..logs import event
from .host_socket import SocketHost, places_at
from .hosts import Host

LOG = logging.getLogger(__name__)
REST = 30.0
"""Seconds in which a server gets no new host after a failure, as long as another one has a place."""


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
        self._rested: dict[Address, float] = {}
        self._digest: str | None = None
        self._opening = asyncio.Lock()

    @property
    def places(self) -> int:
        """Number of episodes that all servers play at a time."""
        return sum(self._places.values())

    async def open(self, hosts: Callable[[], Iterable[Host]]) -> SocketHost:
        """Return a host on the server that has room, or on the next one where that cannot be reached.

        Args:
            hosts: function that returns the open hosts of the pool.

        Raises:
            InfrastructureError: no server can be reached.
            UsageError: a server has another version of the environment than the pool's first host.
        """
        async with self._opening:  # hosts that open at the same time must not learn two digests
            taken = Counter(host.address for host in hosts() if isinstance(host, SocketHost))
            problem: InfrastructureError | None = None
            for address in sorted(self._ids, key=lambda each: self._order(each, taken[each])):
                try:
                    host = await SocketHost.open(self._ids[address], self._digest)
                except InfrastructureError as error:
                    problem = problem or error
                    self._rested[address] = time.monotonic()
                else:
                    self._digest = host.digest
                    return host
            assert problem is not None
            raise problem

    def failed(self, address: Address) -> None:
        """Note that an environment on a server has failed; its server may be lost, too."""
        self._rested[address] = time.monotonic()

    def _reached(self) -> dict[Address, int]:
        """Return the places of each server that answers."""
        places, problems = {}, []
        for address in self._ids:
            try:
                places[address] = places_at(address)
            except InfrastructureError as error:
                problems.append(error)
        if not places:
            raise problems[0]
        for problem in problems:
            event(LOG, "server not reached", f"going on without a server: {problem}", level=logging.WARNING)
        return places

    def _order(self, address: Address, taken: int) -> tuple[bool, bool, float]:
        """Return the sort key of a server: with room first, then without a recent failure, then by its share taken."""
        places = self._places.get(address, 0)
        rests = time.monotonic() - self._rested.get(address, -REST) < REST
        return taken >= places, rests, taken / max(1, places)
