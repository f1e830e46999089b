"""An HTTP server inside the running event loop: no signals, no logs, closed with the loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Iterator
from typing import Any, Self

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ..errors import UsageError

KEPT_ALIVE = 600
"""Seconds that an idle connection stays open, so that a client that waits for its environment can reuse it."""
GRACE = 0.2
"""Seconds after which a server that closes drops the connections that are still open."""
UNREAD = 30.0
"""Seconds in which a client must read a part of an answer that waits for it."""
ROUNDS = 100
"""Rounds of the event loop in which answers end whose connection was dropped."""


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle Ctrl-C: it belongs to the owner of the event loop."""
        yield

    async def main_loop(self) -> None:
        """Wait to be canceled by the owner; uvicorn's own loop asks ten times a second whether to end."""
        await asyncio.Event().wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close, and drop connections whose client is stopped or follows events without an end.

        Their answers would otherwise be cancelled at the end of the loop, and uvicorn would print a traceback of each.
        """
        dropping = asyncio.get_running_loop().call_later(GRACE, self._drop)  # from Python 3.12 on, uvicorn waits for it
        await super().shutdown(sockets)
        dropping.cancel()
        self._drop()
        for _ in range(ROUNDS):
            if self.server_state.tasks:
                await asyncio.sleep(0)

    def _drop(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()


class _Connection(H11Protocol):
    """Uvicorn's HTTP connection, dropped if its client stops reading or writing; uvicorn itself would keep it."""

    def __init__(self, *args: Any, unread: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unread = unread
        self._dropping: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def _watch(self, waiting: int) -> None:
        """Drop the connection unless fewer than ``waiting`` bytes wait in a while."""
        self._dropping = self.loop.call_later(self._unread, self._drop_or_watch, waiting)

    def _drop_or_watch(self, waiting: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now < waiting:
            self._watch(now)
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # the answer came first, as a refusal does
            self.loop.call_later(self._unread, self._drop_halfway, self.cycle)

    def _drop_halfway(self, cycle: RequestResponseCycle) -> None:
        """Drop a connection on which the rest of a request never came; it would count as the next one's body."""
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._read()

    def _read(self) -> None:
        if self._dropping is not None:
            self._dropping.cancel()


class LoopServer:
    """Serves an application from the loop that opened it; created by ``open``.

    The end of the loop closes it at the latest: ``asyncio.run`` cancels what is left.
    """

    def __init__(self, server: _Quiet, listening: socket.socket) -> None:
        self.loop = asyncio.get_running_loop()
        self.port: int = listening.getsockname()[1]
        self._server, self._socket = server, listening
        self._serving = self.loop.create_task(self._serve(), name="turnwise-endpoint")

    @classmethod
    async def open(cls, app: Any, *, host: str, port: int, unread: float = UNREAD, **settings: Any) -> Self:
        """Listen and start serving.

        Args:
            app: ASGI application.
            host: address to listen on.
            port: port to listen on; 0 picks a free one.
            unread: seconds without a read by a client for which an answer waits; then its connection is dropped.
            settings: further settings of uvicorn, such as those of WebSockets, which are off by default.

        Raises:
            UsageError: the server cannot listen on the address.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
        except OSError as error:
            listening.close()
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
        quiet = {"ws": "none", "lifespan": "off", "log_config": None, "access_log": False}
        quiet |= {"server_header": False, "date_header": False}  # a date would need a clock that ticks
        http = functools.partial(_Connection, unread=unread)
        config = uvicorn.Config(app, **{"http": http, "timeout_keep_alive": KEPT_ALIVE, **quiet, **settings})
        made = cls(_Quiet(config), listening)
        while not made._server.started:
            if made._serving.done():
                await made._serving
            await asyncio.sleep(0)
        return made

    @property
    def alive(self) -> bool:
        """Whether it serves in the running loop."""
        return not self._serving.done() and self.loop is asyncio.get_running_loop()

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        self._serving.cancel()
        await asyncio.wait([self._serving])  # not ``await``: a Ctrl-C meanwhile would look like the end of it
        if not self._serving.cancelled():
            self._serving.result()

    async def _serve(self) -> None:
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._server.force_exit = True
            with contextlib.suppress(AttributeError):  # cancelled before it started
                await self._server.shutdown(sockets=[self._socket])
            self._socket.close()
