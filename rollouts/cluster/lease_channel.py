"""Leases to a worker and their ends back, over a socket: a call of Ray costs the driver about a millisecond.

Ray starts, places, watches and ends workers. Each listens on a port that it reports when it starts, and the driver
connects to it once. A message is a number, a size and bytes; the first one of a connection is the key of the run. The
driver numbers its leases. A lease without bytes cancels the one of its number. The worker answers every lease; if one
and its cancellation cross its answer, twice, and the driver ignores the second answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Self

from ...errors import InfrastructureError

HEADER = struct.Struct("!QQ")
"""Number and size of a message."""
LONGEST_KEY = 1 << 8
"""Maximum bytes of the first message, whose sender is not known yet."""
KEPT_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""Options by which the system drops a connection whose other side is silent. Nothing is sent while one plays."""
OPENING = 30.0
"""Seconds for the driver to connect."""


class WorkerLostError(Exception):
    """A worker died; what it was playing is to be played by another."""


class _Messages(asyncio.Protocol, ABC):
    """One end of a connection."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._longest: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        link = transport.get_extra_info("socket")
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEPT_ALIVE.items():
            if option := getattr(socket, name, None):  # not on every system
                link.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= HEADER.size and not self.transport.is_closing():
            number, size = HEADER.unpack_from(buffer, start)
            if self._longest is not None and size > self._longest:
                self.transport.abort()
                return
            end = start + HEADER.size + size
            if len(buffer) < end:
                break
            with memoryview(buffer) as view:
                message = bytes(view[start + HEADER.size : end])
            self.received(number, message)
            start = end
        del buffer[:start]

    def send(self, number: int, message: bytes) -> None:
        """Send a message; nothing if the connection has ended."""
        if not self.transport.is_closing():
            self.transport.write(HEADER.pack(number, len(message)) + message)

    @abstractmethod
    def received(self, number: int, message: bytes) -> None:
        """Handle a message."""


class LeaseChannel(_Messages):
    """The driver's end.

    Args:
        on_lost: called when the connection breaks, before those who wait for answers know.
    """

    def __init__(self, on_lost: Callable[[str], None]) -> None:
        super().__init__()
        self._on_lost, self._numbers = on_lost, itertools.count()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._closed = ""
        self.ended = asyncio.Event()
        """Whether the connection has ended, as it does with the process of the worker."""

    @classmethod
    async def open(cls, address: tuple[str, int], key: str, on_lost: Callable[[str], None]) -> Self:
        """Connect to a worker.

        Args:
            address: host and port of the worker.
            key: key of the run.
            on_lost: called when the connection breaks.

        Raises:
            InfrastructureError: the worker cannot be reached.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(OPENING):
                _, channel = await loop.create_connection(lambda: cls(on_lost), *address)
        except OSError as error:
            why = str(error) or f"no answer in {OPENING:g} s"
            raise InfrastructureError(
                f"the driver cannot reach port {address[1]} of a worker at {address[0]} ({why}); the nodes must let it "
                "connect to any port"
            ) from None
        channel.send(0, key.encode())
        return channel

    async def play(self, lease: bytes) -> bytes:
        """Return the worker's answer to a lease. If the caller is canceled, wait until nothing of the lease runs.

        Raises:
            WorkerLostError: the worker died, or was given up.
            InfrastructureError: the lease was canceled in the worker.
        """
        number = next(self._numbers)
        answer = self._asked(number, lease)
        try:
            if played := await answer:
                return played
            raise InfrastructureError(
                "an episode was canceled in its worker, and not by the driver: its agent or environment raised "
                "CancelledError"
            )
        except asyncio.CancelledError:
            if answer.cancelled():  # otherwise it came at the same moment
                with contextlib.suppress(WorkerLostError):
                    await asyncio.shield(self._asked(number, b""))
            raise

    def close(self, why: str) -> None:
        """Send no more leases; those who wait get a ``WorkerLostError``."""
        self._closed = self._closed or why
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(WorkerLostError(why))
        self._waiting.clear()

    def received(self, number: int, message: bytes) -> None:
        answer = self._waiting.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        if not self._closed:
            self._on_lost(f"its connection broke ({exc or 'its process ended'})")

    def _asked(self, number: int, message: bytes) -> asyncio.Future[bytes]:
        if self._closed:
            raise WorkerLostError(self._closed)
        self._waiting[number] = answer = asyncio.get_running_loop().create_future()
        self.send(number, message)
        return answer


class LeaseServer:
    """The worker's end: plays the leases of every connection that begins with the key.

    Args:
        play: coroutine function that plays a lease and returns its answer.
    """

    def __init__(self, play: Callable[[bytes], Coroutine[Any, Any, bytes]]) -> None:
        self._play = play
        self.playing: set[asyncio.Task[bytes]] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, key: str) -> int:
        """Listen on a free port, and return it.

        Args:
            host: address of the interface.
            key: key of the run.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _WorkersEnd(self, key.encode()), host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def start(self, lease: bytes) -> asyncio.Task[bytes]:
        """Play a lease."""
        task = asyncio.create_task(self._play(lease), name="turnwise-lease")
        self.playing.add(task)
        task.add_done_callback(self.playing.discard)
        return task

    async def close(self) -> None:
        """Stop all leases, and listen no more."""
        if self._server is not None:
            self._server.close()
        tasks = list(self.playing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _WorkersEnd(_Messages):
    def __init__(self, server: LeaseServer, key: bytes) -> None:
        super().__init__()
        self._server, self._key, self._longest = server, key, LONGEST_KEY
        self._tasks: dict[int, asyncio.Task[bytes]] = {}

    def received(self, number: int, message: bytes) -> None:
        if self._longest is not None:
            if not hmac.compare_digest(message, self._key):
                self.transport.abort()
            self._longest = None
        elif message:
            task = self._tasks[number] = self._server.start(message)
            task.add_done_callback(lambda task: self._ended(number, task))
        elif number in self._tasks:
            self._tasks[number].cancel()
        else:  # its answer may have come between the driver's cancellation and this message: no one received it
            self.send(number, b"")

    def connection_lost(self, exc: Exception | None) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _ended(self, number: int, task: asyncio.Task[bytes]) -> None:
        del self._tasks[number]
        if not task.cancelled() and task.exception() is not None:
            self.transport.abort()  # without an answer the driver would wait; so it counts the worker as lost
        else:
            self.send(number, b"" if task.cancelled() else task.result())
