"""An environment on a server (``turnwise serve``), reached over a WebSocket that many hosts share."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Self

from ..envs.remote.address import remote_id
from ..envs.remote.connection import Connection
from ..envs.remote.episode import RemoteEpisode
from .hosts import CLOSING_GRACE, Host

WAIT = 60.0
"""Seconds that an episode waits for a place on a server that is full, as when other clients use it."""


class SocketHost(Host):
    """An environment on a server; its verbs are frames in the loop of the runner.

    A broken connection is replaced, and the server keeps the episode meanwhile. If server or worker are lost, the verb
    raises an ``EnvironmentDiedError``, and the runner repeats the recorded actions in another episode, as it does for a
    dead process.

    Args:
        remote: the episode.
        held: hosts that take a place on a server; this one and its forks are in it until they are closed.
    """

    def __init__(self, remote: RemoteEpisode, held: set[SocketHost]) -> None:
        self._remote, self._held = remote, held
        held.add(self)

    @classmethod
    async def open(cls, id: str, held: set[SocketHost], digest: str | None = None) -> Self:
        """Connect to the server of ``turnwise://host:port/ID``, or use the connection of this loop.

        Args:
            id: id of the environment.
            held: hosts that take a place on a server.
            digest: digest that the server must have for it (default: any).

        Raises:
            UsageError: the server has another digest.
        """
        address, env = remote_id(id)
        return cls(await RemoteEpisode.at(address, env, digest), held)

    @property
    def digest(self) -> str:
        """The server's digest of environment and version."""
        return self._remote.digest

    @property
    def connection(self) -> Connection:
        """The connection to its server."""
        return self._remote.connection

    async def fork(self) -> SocketHost:
        return self._alike(SocketHost(await self._do("fork"), self._held))

    async def close(self) -> None:
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSING_GRACE):
                    await self._remote.close()
        finally:
            self._held.discard(self)

    def abandon(self) -> None:
        closing = asyncio.ensure_future(self.close())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)

    async def _call(self, verb: str, argument: Any) -> Any:
        if verb == "reset":
            (observation, info), tools = await self._remote.reset(argument, WAIT)
            return observation, info, tools
        if verb == "step":
            return await self._remote.step(argument)
        if verb == "random":
            return await self._remote.random(argument)
        if verb == "oracle":
            return await self._remote.oracle()
        if verb == "fork":
            return await self._remote.fork()
        raise ValueError(f"an environment server has no verb {verb!r} for a host")


_closing: set[asyncio.Future[None]] = set()
"""Requests to close that nothing waits for; the loop itself refers to them only weakly."""
