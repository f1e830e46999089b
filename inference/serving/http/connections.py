"""Reuse connections to one server, without a search for a free one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx


class Connections:
    """HTTP clients with one connection each; every request borrows one of them.

    httpcore checks every connection of a client, down to its socket, whenever a request starts or ends. With 256
    requests in flight this took 46 % of a trainer's time, and it grows with the square of their number.

    Args:
        create: function that creates a client; called once for each request in flight at the same time.
    """

    def __init__(self, create: Callable[[], httpx.AsyncClient]) -> None:
        self._create = create
        self._idle: list[httpx.AsyncClient] = []
        self._broken: list[httpx.AsyncClient] = []
        self._all: list[httpx.AsyncClient] = []

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self._all)

    @contextmanager
    def borrow(self) -> Iterator[httpx.AsyncClient]:
        """Lend a client to one request: the last used one, whose connection is most likely still open."""
        if not self._idle:
            self._idle.append(self._create())
            self._all.append(self._idle[-1])
        client = self._idle.pop()
        try:
            yield client
        except BaseException:
            # After a second cancellation, the client may never release its connection again.
            self._broken.append(client)
            raise
        self._idle.append(client)

    async def close_broken(self) -> None:
        """Close the clients whose last request failed or was cancelled."""
        while self._broken:
            client = self._broken.pop()
            await client.aclose()
            self._all.remove(client)

    async def aclose(self) -> None:
        """Close all connections."""
        for client in self._all:
            await client.aclose()
