"""Connections to one server that are used again, without asking all of them which one is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx


class Connections:
    """Clients of one connection each, lent to one request at a time.

    One client with many connections looks at each of them, down to its socket, whenever a request begins or ends: with
    256 requests under way that was more work than all the rest, and grows with their square.

    Args:
        make: a client; asked as often as requests are under way at once.
    """

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._idle: list[httpx.AsyncClient] = []
        self._broken: list[httpx.AsyncClient] = []
        self._all: list[httpx.AsyncClient] = []

    def __len__(self) -> int:
        """How many clients there are."""
        return len(self._all)

    @contextmanager
    def lent(self) -> Iterator[httpx.AsyncClient]:
        """A client for one request: the one that was used last, whose connection is the likeliest to be open."""
        if not self._idle:
            self._idle.append(self._make())
            self._all.append(self._idle[-1])
        client = self._idle.pop()
        try:
            yield client
        except BaseException:
            # Cancelled twice, it may believe for ever that its connection is in use.
            self._broken.append(client)
            raise
        self._idle.append(client)

    async def clean(self) -> None:
        """Close the clients whose last request broke off."""
        while self._broken:
            client = self._broken.pop()
            await client.aclose()
            self._all.remove(client)

    async def aclose(self) -> None:
        """Let go of all connections."""
        for client in self._all:
            await client.aclose()
