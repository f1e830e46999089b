"""A client for load: many WebSocket sessions in OpenEnv's grammar, as cheap as Python allows, for any server."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

STEPS = 100
"""Number of steps after which a session resets its episode."""
RESET = b'{"type":"reset","data":{"seed":0}}'
STEP = b'{"type":"step","data":{"text":"move down"}}'
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


@dataclass(slots=True)
class Counts:
    """Measurements of one load.

    Args:
        latencies: seconds of each answered step.
        sent: number of steps sent.
        problems: first lines of answers that were errors, and of broken sessions.
        opened: number of sessions that were ever reset.
    """

    latencies: list[float] = field(default_factory=list)
    sent: int = 0
    problems: list[str] = field(default_factory=list)
    opened: int = 0


class Session(asyncio.Protocol):
    """One session: handshake, reset, then steps, each after the answer of the one before.

    Frames are masked with zeros, so that masking costs nothing.
    """

    def __init__(self, host: str, counts: Counts) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.idle.set_result(None)
        self._host, self._counts, self._buffer = host, counts, b""
        self._upgraded, self._until, self._at, self._left, self._stepping = False, 0.0, 0.0, STEPS, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(b"0123456789abcdef").decode()
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"
        request = f"GET /ws HTTP/1.1\r\nHost: {self._host}\r\n{upgrade}\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        transport.write(request.encode())

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.ready, self.idle):
            if not future.done():
                self._counts.problems.append(f"connection lost: {error}")
                future.set_result(None)

    def play(self, until: float) -> None:
        """Send steps until this time of ``time.perf_counter``; ``idle`` is done after the last answer."""
        if self._upgraded and not self._transport.is_closing():
            self._until, self.idle = until, asyncio.get_running_loop().create_future()
            self._next()

    def close(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head.partition(b"\r\n")[0]:
                self._counts.problems.append(head.partition(b"\r\n")[0].decode())
                self._transport.close()
                return
            self._upgraded, self._buffer = True, rest
            self._send(RESET)
        while (frame := self._frame()) is not None:
            kind, payload = frame
            if kind == TEXT:
                self._answered(payload)
            elif kind == PING:
                self._send(payload, PONG)
            elif kind == CLOSE:
                self._transport.close()

    def _frame(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, at = buffer[1] & 127, 2
        if size == 126:
            size, at = (struct.unpack_from("!H", buffer, 2)[0], 4) if len(buffer) >= 4 else (1 << 62, 4)
        elif size == 127:
            size, at = (struct.unpack_from("!Q", buffer, 2)[0], 10) if len(buffer) >= 10 else (1 << 62, 10)
        if len(buffer) < at + size:
            return None
        self._buffer = buffer[at + size :]
        return buffer[0] & 15, buffer[at : at + size]

    def _answered(self, payload: bytes) -> None:
        now = time.perf_counter()
        failed = b'"observation"' not in payload[:40]
        if failed:
            self._counts.problems.append(json.loads(payload)["data"].get("message", "")[:200])
        elif self._stepping:
            self._counts.latencies.append(now - self._at)
        if not self.ready.done():
            self._counts.opened += not failed
            self.ready.set_result(None)
        elif now < self._until:
            self._next()
        elif not self.idle.done():
            self.idle.set_result(None)

    def _next(self) -> None:
        self._left -= 1
        self._stepping = self._left >= 0
        if self._stepping:
            self._counts.sent += 1
            self._at = time.perf_counter()
            self._send(STEP)
        else:
            self._left = STEPS
            self._send(RESET)

    def _send(self, payload: bytes, kind: int = TEXT) -> None:
        size = len(payload)  # below 126 bytes, all that this client says
        self._transport.write(bytes((128 | kind, 128 | size, 0, 0, 0, 0)) + payload)


async def load(
    port: int,
    sessions: int,
    seconds: float,
    *,
    spread: float = 0.0,
    patience: float = 60.0,
    opened: Callable[[], None] = lambda: None,
) -> Counts:
    """Return what ``sessions`` measure that all play for ``seconds``.

    Args:
        port: port of the server on this machine.
        sessions: number of sessions.
        seconds: time for which each sends steps.
        spread: seconds over which the sessions begin.
        patience: seconds for the resets, and for the answers after the last step was sent.
        opened: function to call when every session has its first observation.
    """
    counts, loop, all_sessions = Counts(), asyncio.get_running_loop(), list[Session]()
    for _ in range(sessions):
        _, session = await loop.create_connection(lambda: Session(f"127.0.0.1:{port}", counts), "127.0.0.1", port)
        all_sessions.append(session)
        if len(all_sessions) % 32 == 0:  # as many handshakes at a time as a server's backlog surely holds
            await asyncio.wait([each.ready for each in all_sessions[-32:]], timeout=patience)
    await asyncio.wait([each.ready for each in all_sessions], timeout=patience)
    opened()
    for number, session in enumerate(all_sessions):
        if spread and number % 16 == 0:
            await asyncio.sleep(16 * spread / sessions)
        session.play(time.perf_counter() + seconds)
    await asyncio.wait([each.idle for each in all_sessions], timeout=spread + seconds + patience)
    for session in all_sessions:
        session.close()
    await asyncio.sleep(0)
    return counts
