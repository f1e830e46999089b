"""``EnvironmentServer``: environments for clients elsewhere, by the protocol of Turnwise and by those of others."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
from collections.abc import Sequence
from typing import Any, Self

from fastapi import FastAPI, WebSocket
from fastapi.responses import JSONResponse

from ...envs.remote.frames import PATH
from ...logs import event
from ..server import LoopServer
from .access import Access, Client
from .calls import now
from .catalog import Catalog
from .episodes import Episodes
from .nemo_routes import NemoRoutes
from .openenv_routes import OpenEnvRoutes
from .ors_routes import OrsRoutes
from .pace import Pace
from .settings import ServeConfig
from .socket import EnvironmentSocket
from .wire import AbortableSocket, Wire

LOG = logging.getLogger(__name__)
LOOK = 0.1
"""Seconds between two checks whether episodes still run when the server stops."""
SWEEP = 1.0
"""Seconds between two searches for episodes that their clients have left."""


class EnvironmentServer:
    """A server in the event loop that opens it. ``async with`` starts it, and at the end closes every environment.

    Args:
        ids: ids of the environments; the first is the one at the root for OpenEnv's clients.
        config: settings.
        tokens: tokens of clients; none lets every client in.
        operator: key of the operator, who may ask the oracle and read what an environment raised.
        host: address to listen on; this machine only, by default.
        port: port to listen on; 0 picks a free one.

    Raises:
        UsageError: no environment is named or one does not exist, a token is too short, or the address is taken.
    """

    def __init__(
        self,
        ids: Sequence[str],
        config: ServeConfig | None = None,
        *,
        tokens: Sequence[str] = (),
        operator: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.config = config or ServeConfig()
        self.catalog = Catalog(ids, self.config)
        self.episodes = Episodes(self.config)
        self.address = ""
        """Base URL, such as ``ws://127.0.0.1:8765``, while it serves."""
        self._access = Access(tokens, operator)
        self._host, self._port = host, port
        self._connections = 0
        self._server: LoopServer | None = None
        self._sweeping: asyncio.Task[None] | None = None
        release = importlib.metadata.version("turnwise")
        # FastAPI's own pages would answer without a token.
        self.app = FastAPI(
            title="Turnwise environments", version=release, openapi_url=None, docs_url=None, redoc_url=None
        )
        self.app.add_api_websocket_route(PATH, self._socket)
        NemoRoutes(self.catalog, self.episodes, self._access, self.config, release).add_to(self.app)
        openenv = OpenEnvRoutes(self.catalog, self.episodes, self._access, self.config, release, self._admitted)
        openenv.add_to(self.app)
        OrsRoutes(self.catalog, self.episodes, self._access, self.config, release).add_to(self.app)
        self.app.add_middleware(Pace, access=self._access, rate=self.config.rate)

    async def start(self) -> str:
        """Create one environment of each kind, start serving, and return the address."""
        await self.catalog.open()
        config: dict[str, Any] = {"ws": AbortableSocket, "ws_max_size": self.config.frame}
        config |= {"ws_per_message_deflate": False, "unread": self.config.send_timeout}
        ping = max(self.config.heartbeat, 1.0)
        config |= {"ws_ping_interval": ping, "ws_ping_timeout": 4 * ping}
        self._server = await LoopServer.open(self.app, host=self._host, port=self._port, **config)
        self._sweeping = asyncio.create_task(self._sweep())
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.address = f"ws://{host}:{self._server.port}"
        return self.address

    @property
    def playing(self) -> int:
        """Number of episodes that ``drain`` would wait for."""
        return self.episodes.playing(now() - self.config.drain)

    async def drain(self) -> None:
        """Start no more episodes, and wait for the running ones, at most ``drain`` seconds.

        It does not wait for a client that left, or that has been silent for longer.
        """
        self.episodes.places.drain()
        start = now()
        while self.episodes.playing(start - self.config.drain) and now() - start < self.config.drain:  # noqa: ASYNC110
            await asyncio.sleep(LOOK)

    async def aclose(self) -> None:
        """Stop serving, and close every environment."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        if self._server is not None:
            await self._server.close()
        await self.episodes.end()
        await self.catalog.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def _socket(self, websocket: WebSocket) -> None:
        admitted = await self._admitted(websocket)
        if admitted is not None:
            client, wire = admitted
            try:
                await EnvironmentSocket(wire, client, self.catalog, self.episodes, self.config).serve()
            finally:
                await wire.close()

    async def _admitted(self, websocket: WebSocket) -> tuple[Client, Wire] | None:
        """Accept a connection, or refuse it with an HTTP status: 401 for an unknown client, 503 for one too many."""
        client = self._access.client(websocket.headers)
        if client is None:
            await websocket.send_denial_response(JSONResponse({"detail": "send a token of this server"}, 401))
            return None
        if self._connections >= self.config.connections:
            await websocket.send_denial_response(JSONResponse({"detail": "too many connections"}, 503))
            return None
        self._connections += 1
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(self._left)
        await websocket.accept()
        return client, Wire(websocket, self.config)

    def _left(self, _: object) -> None:
        self._connections -= 1

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            try:
                await self.episodes.limits.enforce({*self.episodes.hosts, *self.catalog.hosts})
                await self.episodes.sweep()
            except Exception as error:  # the next sweeps must still come
                event(LOG, "sweep failed", f"{type(error).__name__}: {error}", level=logging.WARNING)
