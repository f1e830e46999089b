"""``ServerMeter``: queues and prefix caches of servers while a step is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from ...errors import TurnwiseError
from ...inference.serving.server import Counting, Sampler, ServerLoad

EVERY, LONGEST = 5.0, 1.0
"""Seconds between two questions to all servers, and the most that one may take."""
Loads = Mapping[str, ServerLoad]
"""Loads of the servers that answered, by address."""


class ServerMeter:
    """Asks servers for their load. A failure has no consequence but a missing number.

    Args:
        servers: servers that sample; those that cannot count are left out.
        every: seconds between two questions.
    """

    def __init__(self, servers: Sequence[Sampler] = (), *, every: float = EVERY) -> None:
        self.every = every
        self._servers = [server for server in servers if isinstance(server, Counting)]
        self._addresses = [server.address for server in servers if isinstance(server, Counting)]
        self._seen: list[Loads] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Ask at the beginning and the end of the block, and meanwhile again and again."""
        self._seen = []
        if not self._servers:
            yield
            return
        asking = asyncio.create_task(self._ask_repeatedly())
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.wait([asking])  # not ``await asking``: a Ctrl-C meanwhile would look like the end of it
        if self._seen and any(self._seen):
            self._seen.append(await self._ask())

    def metrics(self) -> dict[str, float]:
        """Return the numbers of the last block; none from servers that do not count."""
        during = self._seen[1:-1] or self._seen
        loads = [load for loads in during for load in loads.values()]
        if not loads:
            return {}
        found = {
            "servers/running": sum(load.running for load in loads) / len(loads),
            "servers/waiting": sum(load.waiting for load in loads) / len(loads),
            "servers/waiting_max": max(load.waiting for load in loads),
            "servers/cache_use": sum(load.cache_use for load in loads) / len(loads),
        }
        first, last = self._seen[0], self._seen[-1]
        both = [(first[address], last[address]) for address in first.keys() & last.keys()]
        both = [(before, after) for before, after in both if after.queried >= before.queried]  # else it was restarted
        if queried := sum(after.queried - before.queried for before, after in both):
            found["servers/prefix_hits"] = sum(after.found - before.found for before, after in both) / queried
        return found

    async def _ask_repeatedly(self) -> None:
        while True:
            self._seen.append(await self._ask())
            await asyncio.sleep(self.every)

    async def _ask(self) -> Loads:
        loads = await asyncio.gather(*map(_load, self._servers))
        return {address: load for address, load in zip(self._addresses, loads, strict=True) if load is not None}


async def _load(server: Counting) -> ServerLoad | None:
    try:
        async with asyncio.timeout(LONGEST):
            return await server.load()
    except (TurnwiseError, TimeoutError, OSError):
        return None
