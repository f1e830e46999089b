"""One WebSocket to an environment server: it carries any number of episodes, and survives a broken socket.

No request acts twice, so one without an answer is sent again: on a new connection, and after ``RESEND`` seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import weakref
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ...errors import EnvironmentDiedError, EnvironmentFailedError, InfrastructureError, RequestError, UsageError
from .address import Address
from .frames import PATH, PROTOCOL, Hello, Verb, decode, encode
from .outages import report_back, report_lost
from .problems import raised, unreachable

RESEND = 10.0
"""Seconds without an answer after which a request is sent again."""
OPENING = 10.0
"""Seconds for a connection, and for the server's first frame on it."""
MISSED = 3
"""Number of heartbeats that may be missing before a connection counts as broken."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Maximum bytes of a server's frame."""
GONE, BROKEN = 1000, 4000
"""Codes with which a socket closes: at the end of its loop, for good; and to be replaced by another."""
TOO_LARGE = 1009
"""Code with which a side closes a socket because of a frame that is too large."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between two attempts to connect again; the pause doubles until a connection brings an answer."""
MOST_ATTACHED, ID_BYTES, ATTACH_BYTES = 4096, 35, 100
"""Maximum number of episodes in one request to attach; bytes of an id in it, and of the rest."""


@dataclass(slots=True)
class _Asked:
    verb: str
    text: str
    answer: asyncio.Future[dict[str, Any]]
    sent: float = -1.0


@dataclass(slots=True)
class _State:
    """The changing parts: the socket, the requests without an answer, and the episodes to attach again.

    ``lost`` is the time when the socket broke, and ``pause`` that before the next attempt; an answer clears both.
    """

    socket: ClientConnection | None = None
    hello: Hello | None = None
    asked: dict[int, _Asked] = field(default_factory=dict)
    episodes: set[str] = field(default_factory=set)
    lost: float | None = None
    pause: float = 0.0


class Connection:
    """A connection to a server, in the running event loop; get one with ``connection_to``.

    It opens with the first request and ends with its loop. While an episode is open, a broken socket is replaced within
    the time that the server stated; otherwise the next request opens a new one.

    Args:
        address: the server.
        resend: seconds without an answer after which a request is sent again.
    """

    def __init__(self, address: Address, *, resend: float = RESEND) -> None:
        self.address = address
        self._resend = resend
        self._state = _State()
        self._ids = itertools.count(1)
        self._opening = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None

    async def hello(self) -> Hello:
        """Return what the server announced last, and connect if there is no connection.

        Raises:
            UsageError: the server refuses the token or the version, or is not an environment server.
            InfrastructureError: the server cannot be reached.
        """
        async with self._opening:
            if self._keeping is None or self._keeping.done():
                socket = await self._connected()
                self._state.lost, self._state.pause = None, 0.0
                self._keeping = asyncio.create_task(self._keep(socket), name="turnwise-remote")
        assert self._state.hello is not None
        return self._state.hello

    @property
    def load(self) -> int:
        """Number of episodes that the server announced last."""
        return self._state.hello.load if self._state.hello else 0

    @property
    def connected(self) -> bool:
        """Whether there is a socket to the server."""
        return self._state.socket is not None

    async def ask(self, verb: Verb, data: Mapping[str, Any], episode: str | None = None) -> dict[str, Any]:
        """Send a request, as often as necessary, and return the data of its answer.

        Raises:
            RequestError: the request is larger than the server accepts.
            TurnwiseError: whatever the server answered; see ``problems.KINDS``.
        """
        return await self._asked(verb, dict(data), episode)

    async def close(self) -> None:
        """Close the socket; requests without an answer fail."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    def keep(self, episode: str) -> None:
        """Attach an episode again after a broken socket, until ``forget``."""
        self._state.episodes.add(episode)

    def forget(self, episode: str) -> None:
        """Do not attach an episode again."""
        self._state.episodes.discard(episode)

    async def _asked(self, verb: str, data: dict[str, Any], episode: str | None) -> dict[str, Any]:
        await self.hello()
        id = next(self._ids)
        text = encode({"id": id, "verb": verb, "episode": episode, "data": data})
        asked = _Asked(verb, text, asyncio.get_running_loop().create_future())
        self._state.asked[id] = asked
        try:
            await self._send(asked)
            return await asked.answer
        finally:
            self._state.asked.pop(id, None)

    async def _send(self, asked: _Asked) -> None:
        if (socket := self._state.socket) is not None and self._fits(asked):
            asked.sent = asyncio.get_running_loop().time()
            with contextlib.suppress(ConnectionClosed):  # then it is sent again on the next socket
                await socket.send(asked.text)

    def _fits(self, asked: _Asked) -> bool:
        """Whether the server accepts a request of this size; otherwise the request fails."""
        size, hello = len(asked.text), self._state.hello
        if hello is None or size <= hello.frame:
            return True
        _fail(asked, RequestError(f"the {asked.verb} has {size} bytes; {self.address} accepts {hello.frame}"))
        return False

    async def _keep(self, socket: ClientConnection) -> None:
        """Read answers until nothing needs this connection, replacing a broken socket."""
        problem: Exception = EnvironmentDiedError(f"{self.address} closed the connection")
        try:
            while True:
                await self._read(socket)
                if not (self._state.asked or self._state.episodes):
                    return
                socket = await self._again()
        except (UsageError, InfrastructureError) as error:
            problem = error
        finally:
            self._state.socket = None
            for asked in self._state.asked.values():
                _fail(asked, problem)

    async def _again(self) -> ClientConnection:
        """Return a new socket.

        Raises:
            EnvironmentDiedError: there was none within the time that episodes wait for it.
        """
        assert self._state.hello is not None
        state, limit, now = self._state, self._state.hello.reattach, asyncio.get_running_loop().time()
        state.lost = now if state.lost is None else state.lost
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(state.lost + limit):
                while True:
                    await asyncio.sleep(state.pause)
                    state.pause = min(max(2 * state.pause, SHORTEST_PAUSE), LONGEST_PAUSE)
                    try:
                        return await self._connected()
                    except InfrastructureError as error:
                        text = f"lost a server, for which its episodes wait up to {limit:g} s: {error}"
                        report_lost(self.address, text)
        raise EnvironmentDiedError(f"{self.address} was lost, and could not be reached again in {limit:g} s")

    async def _connected(self) -> ClientConnection:
        address, token = self.address, self.address.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            socket = await connect(
                f"{address}{PATH}",
                additional_headers=headers,
                compression=None,
                max_size=LARGEST_ANSWER,
                open_timeout=OPENING,
                ping_interval=None,
                close_timeout=1.0,
                proxy=None,
            )
        except InvalidStatus as error:
            raise self._refused(error.response.status_code) from None
        except (OSError, WebSocketException, TimeoutError) as error:
            raise unreachable(self.address, error) from None
        try:
            async with asyncio.timeout(OPENING):
                self._state.hello = self._greeted(await socket.recv())
        except BaseException as error:
            socket.transport.abort()
            if isinstance(error, OSError | WebSocketException | TimeoutError):
                raise unreachable(self.address, error) from None
            raise
        self._state.socket = socket
        report_back(self.address)
        return socket

    def _refused(self, status: int) -> Exception:
        if status == 401:
            return UsageError(f"{self.address} refused the token; {self.address.token_hint}")
        if status == 403:
            hint = f"{self.address.token_hint}; if it is an OpenEnv server, write {self.address.openenv_id('')}"
            return UsageError(f"{self.address} refuses this client (HTTP 403 for {PATH}); {hint}")
        if status == 429 or status >= 500 or self._state.hello is not None:  # a proxy answers while a server restarts
            return InfrastructureError(f"{self.address} accepts no further connection now (HTTP {status})")
        tls = "; if it speaks TLS, write wss:// or turnwise+tls://" if status == 400 and not self.address.tls else ""
        return UsageError(f"{self.address} is not an environment server of Turnwise (HTTP {status} for {PATH}){tls}")

    def _greeted(self, text: str | bytes) -> Hello:
        try:
            frame = decode(text)
        except RequestError:
            frame = {}
        data = frame.get("data") or {}
        if frame.get("event") != "hello" and self._state.hello is not None:
            raise unreachable(self.address, WebSocketException("its first frame is not that of an environment server"))
        if frame.get("event") != "hello" or data.get("protocol") != PROTOCOL:
            theirs = data.get("protocol", "no")
            raise UsageError(
                f"{self.address} speaks {theirs} version of the protocol, and this client version {PROTOCOL}; install "
                "the same release of Turnwise on both sides"
            )
        return Hello(**{name: data[name] for name in Hello.__dataclass_fields__})

    async def _read(self, socket: ClientConnection) -> None:
        """Handle the server's frames until the socket breaks."""
        assert self._state.hello is not None
        limit = MISSED * self._state.hello.heartbeat
        catching_up, code = asyncio.create_task(self._catch_up()), GONE
        try:
            async for frame in _frames(socket, limit):
                self._received(frame)
            code = BROKEN
            self._fail_too_large(socket)
        finally:
            self._state.socket = None
            catching_up.cancel()
            await asyncio.gather(catching_up, return_exceptions=True)
            with contextlib.suppress(Exception):
                await socket.close(code)

    async def _catch_up(self) -> None:
        """Attach episodes, send what was sent on an earlier socket, and from then on what got no answer in time."""
        loop = asyncio.get_running_loop()
        for text in self._attaching():
            await self._send(_Asked("attach", text, loop.create_future()))
        before = loop.time()
        while True:
            for asked in list(self._state.asked.values()):
                if asked.sent < before:
                    await self._send(asked)
            await asyncio.sleep(self._resend / 4)
            before = loop.time() - self._resend

    def _attaching(self) -> list[str]:
        """Return the requests that attach all episodes again; their ids differ from those of other requests."""
        assert self._state.hello is not None
        most = max(1, min(MOST_ATTACHED, (self._state.hello.frame - ATTACH_BYTES) // ID_BYTES))
        episodes = sorted(self._state.episodes)
        return [
            encode({"id": -start, "verb": "attach", "data": {"episodes": episodes[start : start + most]}})
            for start in range(0, len(episodes), most)
        ]

    def _fail_too_large(self, socket: ClientConnection) -> None:
        """Fail the request for which a side closed the socket; sent again, it would break the next one, too."""
        protocol, asked = socket.protocol, list(self._state.asked.values())
        theirs, ours = protocol.close_rcvd, protocol.close_sent
        if theirs is not None and theirs.code == TOO_LARGE and protocol.close_rcvd_then_sent:
            for largest in sorted(asked, key=lambda each: len(each.text))[-1:]:
                size = len(largest.text)
                _fail(largest, RequestError(f"the {largest.verb} has {size} bytes; {self.address} accepts fewer"))
        elif ours is not None and ours.code == TOO_LARGE:  # the frame was not read, so its request is unknown
            for each in asked:
                _fail(each, EnvironmentFailedError(f"{self.address} sent an answer of over {LARGEST_ANSWER} bytes"))

    def _received(self, frame: Mapping[str, Any]) -> None:
        if frame.get("event") == "heartbeat":
            if (hello := self._state.hello) is not None:
                self._state.hello = replace(hello, load=int(frame["data"]["load"]))
            return
        self._state.lost, self._state.pause = None, 0.0
        id = frame.get("id")
        if id is None and frame.get("ok") is False:  # it names no request, so any of them may be meant
            problem = raised(frame.get("error") or {}, f"{self.address} cannot read a request")
            for each in self._state.asked.values():
                _fail(each, problem)
        asked = self._state.asked.get(id) if isinstance(id, int) else None
        if asked is None or asked.answer.done():  # a second answer, or one that is no longer waited for
            return
        if frame.get("ok"):
            asked.answer.set_result(frame["data"])
        else:
            asked.answer.set_exception(raised(frame.get("error") or {}, str(self.address)))


def _fail(asked: _Asked, problem: Exception) -> None:
    if not asked.answer.done():
        asked.answer.set_exception(problem)


async def _frames(socket: ClientConnection, limit: float) -> AsyncIterator[dict[str, Any]]:
    """Yield frames until the socket breaks, or is silent for ``limit`` seconds. Unreadable frames count as lost."""
    while True:
        try:
            async with asyncio.timeout(limit):
                text = await socket.recv()
        except (ConnectionClosed, TimeoutError, OSError):
            return
        with contextlib.suppress(RequestError):
            yield decode(text)


_connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Address, str], Connection]]
_connections = weakref.WeakKeyDictionary()
"""Connections by event loop, server and token."""


def connection_to(address: Address) -> Connection:
    """Return the connection to a server in the running event loop."""
    known = _connections.setdefault(asyncio.get_running_loop(), {})
    return known.setdefault((address, address.token), Connection(address))
