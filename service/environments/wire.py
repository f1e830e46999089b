"""One WebSocket of a server: bounded reading, sending with a deadline, and an abrupt end if a client stops reading."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from ...envs.remote.connection import GONE
from ...envs.remote.frames import encode
from ...errors import RequestError
from .pace import Rate
from .settings import ServeConfig

ABORT = "turnwise.abort"
"""Extension of the ASGI scope: a function that drops the connection at once."""
WRITE = "turnwise.write"
"""Extension of the ASGI scope: a function that writes a text frame at once, if it can."""
SMALL, AHEAD = 4096, 16
"""Bytes of a message, and number of such messages, that are read before the ones before them are taken."""


class AbortableSocket(WebSocketsSansIOProtocol):
    """Uvicorn's WebSocket, which can also be dropped while data waits for a client that does not read."""

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["extensions"][ABORT] = {"call": self.transport.abort}
            self.scope["extensions"][WRITE] = {"call": self.write_at_once}

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; uvicorn's own pauses reading for each one, which costs two system calls."""
        if sum(map(len, self.frames)) > SMALL or self.queue.qsize() >= AHEAD or self.read_paused:
            super().send_receive_event_to_app()
            return
        self.read_paused = True
        try:
            super().send_receive_event_to_app()
        finally:
            self.read_paused = False

    def write_at_once(self, text: str) -> bool:
        """Write a frame without waiting; returns whether the connection is open and nothing else waits to be read."""
        if self.disconnected or self.conn.state is not State.OPEN or not self.handshake_complete:
            return False
        if not self.writable.is_set():
            return False
        self.conn.send_text(text.encode())
        self.transport.write(b"".join(self.conn.data_to_send()))
        return True

    async def send(self, message: Any) -> None:
        """Send an event; the answer that refuses a connection completes the handshake."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def keepalive_timeout(self) -> None:
        """Drop a connection whose other side is silent, also if it is half-open."""
        super().keepalive_timeout()
        self.transport.abort()


class Budget:
    """Bounds the requests of one connection: their number and bytes without an answer, and their rate.

    Those that wait for a place count apart, within the same limits, so that the others are still read.
    """

    def __init__(self, config: ServeConfig) -> None:
        self._number, self._bytes, self._rate = config.pending, 4 * config.frame, Rate(config.rate)
        self._apart_number, self._apart_bytes = self._number, self._bytes
        self._given = asyncio.Event()

    async def take(self, size: int) -> None:
        """Wait until a request of ``size`` bytes fits."""
        if wait := self._rate.take():
            await asyncio.sleep(wait)
        while self._number <= 0 or self._bytes < size:
            self._given.clear()
            await self._given.wait()
        self._number, self._bytes = self._number - 1, self._bytes - size

    def give(self, size: int) -> None:
        """Return what ``take`` took."""
        self._number, self._bytes = self._number + 1, self._bytes + size
        self._given.set()

    def set_apart(self, size: int) -> None:
        """Return what ``take`` took, and count the request among those that wait for a place.

        Raises:
            RequestError: too many of this connection wait.
        """
        if self._apart_number <= 0 or self._apart_bytes < size:
            raise RequestError("the server is full, and too many resets of this connection wait", code="full")
        self._apart_number, self._apart_bytes = self._apart_number - 1, self._apart_bytes - size
        self.give(size)

    def give_apart(self, size: int) -> None:
        """Return what ``set_apart`` took."""
        self._apart_number, self._apart_bytes = self._apart_number + 1, self._apart_bytes + size


class Share:
    """Share of a budget that one request takes until its answer.

    Args:
        budget: the budget.
        size: bytes of the request.
    """

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget, self._size = budget, size
        self._apart = False

    def set_apart(self) -> None:
        """Count the request among those that wait for a place.

        Raises:
            RequestError: too many of this connection wait.
        """
        if not self._apart:
            self._budget.set_apart(self._size)
            self._apart = True

    def give(self) -> None:
        """Return the share, once."""
        (self._budget.give_apart if self._apart else self._budget.give)(self._size)


class Wire:
    """One accepted WebSocket.

    Args:
        socket: the socket.
        config: settings of the server.
    """

    def __init__(self, socket: WebSocket, config: ServeConfig) -> None:
        self._socket, self._config = socket, config
        self._sending = asyncio.Lock()
        extension = socket.scope.get("extensions", {}).get(WRITE)
        self._write: Callable[[str], bool] = extension["call"] if extension else lambda text: False
        self.broken = False
        self.gone = False
        """Whether the client closed the connection for good."""

    async def frames(self) -> AsyncIterator[str]:
        """Yield text frames until the socket breaks."""
        while not self.broken:
            try:
                message = await self._socket.receive()
            except (WebSocketDisconnect, RuntimeError):
                break
            if message["type"] == "websocket.disconnect":
                self.gone = message.get("code") == GONE
                break
            text = message.get("text")
            yield text if text is not None else (message.get("bytes") or b"").decode(errors="replace")
        self.broken = True

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame; a client that does not read it in time loses the connection."""
        text = encode(frame)
        if not self.broken and not self._sending.locked() and self._write(text):
            return
        async with self._sending:
            if self.broken:
                return
            try:
                async with asyncio.timeout(self._config.send_timeout):
                    await self._socket.send_text(text)
            except TimeoutError:
                self.abort()
            except (WebSocketDisconnect, RuntimeError, OSError):
                self.broken = True

    def abort(self) -> None:
        """Drop the connection at once."""
        self.broken = True
        if extension := self._socket.scope.get("extensions", {}).get(ABORT):
            extension["call"]()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection politely, if it still works."""
        if self._socket.application_state is WebSocketState.CONNECTED:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1.0):
                    await self._socket.close(code, reason)
