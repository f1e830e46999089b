"""One open connection to the runner in a container: its input, and its output without the engine's frames."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter, Transport
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from ...errors import SandboxError
from .frames import STDOUT, Demultiplexer

KEPT = 4096
"""Bytes kept from the end of standard error."""
HEAD = 16 * 1024
"""The most bytes of the engine's answer before the streams begin."""
PIECES = 1024 * 1024
"""Bytes of unread output before the engine has to wait."""
PORT = 2375
"""Port of an engine that listens without encryption, if its address names none."""
TIMEOUT = 60.0
"""Seconds that the engine may take to attach."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """The streams of a container.

    Args:
        reader: stream of its standard output.
        writer: stream of its standard input.
        protocol: protocol object, which has the end of standard error.
    """

    reader: StreamReader
    writer: StreamWriter
    protocol: AttachedProtocol


class AttachedProtocol(StreamReaderProtocol):
    """The connection after ``POST /containers/…/attach``: the engine's answer, then frames.

    Only standard output reaches the reader, which stops the connection while it is full. The end of standard error is
    kept in ``said``, to explain why the container ended.
    """

    def __init__(self, reader: StreamReader, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(reader, loop=loop)
        self.said = b""
        self.attached = loop.create_future()
        self._head = b""
        self._frames = Demultiplexer()
        self._transport: Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self.attached.done():
            data = self._answered(data)
        try:
            for stream, piece in self._frames.feed(data):
                if stream == STDOUT:
                    super().data_received(piece)
                else:
                    self.said = (self.said + piece)[-KEPT:]
        except SandboxError as error:
            self.said = str(error).encode()
            if self._transport is not None:
                self._transport.abort()

    def eof_received(self) -> bool | None:
        self._given_up(None)
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._given_up(exc)
        super().connection_lost(exc)

    def _given_up(self, why: Exception | None) -> None:
        if not self.attached.done():
            self.attached.set_exception(SandboxError(f"the docker engine closed the connection: {why or self._head!r}"))

    def _answered(self, data: bytes) -> bytes:
        """Return the data after the engine's answer, once that is complete."""
        self._head += data
        head, found, rest = self._head.partition(b"\r\n\r\n")
        if not found and len(self._head) < HEAD:
            return b""
        self._head = head
        if head.split(b" ", 2)[1:2] == [b"101"]:
            self.attached.set_result(None)
            return rest
        self.attached.set_exception(SandboxError(f"the docker engine does not attach: {(head + rest)[-500:]!r}"))
        return b""


async def attach(address: str, version: str, container: str) -> Attachment:
    """Connect to the input and output of a new container before its start, so that nothing is missed.

    Args:
        address: address of the engine, ``unix:///path`` or ``tcp://host:port``.
        version: version of its API.
        container: id of the container.

    Raises:
        SandboxError: the engine refuses it, or is down.
    """
    loop = asyncio.get_running_loop()
    reader = StreamReader(limit=PIECES, loop=loop)
    where = urlsplit(address)
    try:
        if where.scheme == "unix":
            transport, protocol = await loop.create_unix_connection(lambda: AttachedProtocol(reader, loop), where.path)
        else:
            transport, protocol = await loop.create_connection(
                lambda: AttachedProtocol(reader, loop), where.hostname or "", where.port or PORT
            )
    except OSError as error:
        raise SandboxError(f"cannot reach the docker engine at {address}: {error}") from error
    transport.write(
        f"POST /v{version}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
        "Host: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode()
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            await protocol.attached
    except TimeoutError as error:
        transport.abort()
        raise SandboxError(f"the docker engine at {address} did not answer within {TIMEOUT:g} s") from error
    except BaseException:
        transport.abort()
        raise
    return Attachment(reader, StreamWriter(transport, protocol, reader, loop), protocol)
