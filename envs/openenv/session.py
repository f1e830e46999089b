"""A session with an OpenEnv server (release 0.10): one WebSocket at ``/ws``, which is one environment there."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ...errors import (
    ContractError,
    EnvironmentDiedError,
    EnvironmentFailedError,
    InfrastructureError,
    UnparseableError,
    UsageError,
)
from ..remote.address import Address
from ..remote.connection import LARGEST_ANSWER, OPENING
from ..remote.frames import encode
from ..remote.problems import one_line

FULL = "CAPACITY_REACHED"
REFUSED = ("VALIDATION_ERROR", "INVALID_JSON")
"""Codes of a message that the server cannot read: an agent's action may cause them."""
FULL_WAIT, FIRST_PAUSE, LONGEST_PAUSE = 30.0, 0.05, 1.0
"""Seconds for which a reset waits for a place on a full server; first and longest pause between two attempts."""
MOST_PLACES = 8
"""Number of sessions that certification opens at a time."""
LARGEST_ACTION = 2**20
"""Maximum characters of an action: servers close the session at a longer message, which would not be scored."""
LONGEST_REASON = 500
"""Characters of a server's reason that an agent reads."""


class OpenEnvSession:
    """One environment of an OpenEnv server. A broken socket loses it, since OpenEnv cannot attach to it again.

    Args:
        address: the server.
        base: path of the environment on the server, without ``/ws``; often empty.
    """

    def __init__(self, address: Address, base: str = "") -> None:
        self._address, self._base = address, f"/{base}" if base else ""
        self._socket: ClientConnection | None = None
        self._new = True

    async def reset(self, seed: int) -> dict[str, Any]:
        """Start an episode, on the socket of the one before if it still works.

        Raises:
            InfrastructureError: the server cannot be reached, or stays full.
        """
        if self._socket is not None:
            with contextlib.suppress(EnvironmentDiedError):
                return await self._asked("reset", {"seed": seed})
            await self.close()
        ends, pause = asyncio.get_running_loop().time() + FULL_WAIT, FIRST_PAUSE
        while True:
            try:
                self._socket = await self._opened()
                return await self._asked("reset", {"seed": seed})
            except FullError as error:
                await self.close()
                if asyncio.get_running_loop().time() > ends:
                    raise InfrastructureError(str(error)) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Take an action, and return the data of the observation.

        Raises:
            UnparseableError: the server cannot read the action.
            EnvironmentFailedError: the environment raised.
            EnvironmentDiedError: the socket broke, and the episode with it.
        """
        if self._new:  # a server must refuse a step before the first reset itself
            self._socket = await self._opened()
        return await self._asked("step", action)

    async def opens(self) -> bool:
        """Open the session, and return whether the server had a place for it."""
        try:
            self._socket = await self._opened()
            async with asyncio.timeout(OPENING):
                await self._asked("state", {})
        except TimeoutError:
            await self.close()
            raise InfrastructureError(f"{self._address} has not answered within {OPENING:g} s") from None
        except FullError:
            await self.close()
            return False
        except EnvironmentFailedError:  # an environment without a state before its first reset
            pass
        return True

    async def close(self) -> None:
        """End the session."""
        socket, self._socket = self._socket, None
        if socket is not None:
            with contextlib.suppress(WebSocketException, OSError):
                await socket.send(json.dumps({"type": "close"}))
            with contextlib.suppress(Exception):
                await socket.close()

    async def _opened(self) -> ClientConnection:
        token, self._new = self._address.token, False
        try:
            return await connect(
                f"{self._address}{self._base}/ws",
                additional_headers={"Authorization": f"Bearer {token}"} if token else {},
                max_size=LARGEST_ANSWER,
                open_timeout=OPENING,
                close_timeout=1.0,
                proxy=None,
            )
        except InvalidStatus as error:
            raise refused(self._address, error.response.status_code, f"{self._base}/ws") from None
        except (OSError, WebSocketException, TimeoutError) as error:
            raise _unreachable(self._address, error) from None

    async def _asked(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        if self._socket is None:
            raise EnvironmentDiedError(f"{self._address}: the session has ended; reset the environment")
        try:
            text = encode({"type": kind, "data": data})
        except ContractError:
            raise UnparseableError("Your action cannot be sent: it is not JSON.") from None
        if kind == "step" and len(text) > LARGEST_ACTION:
            raise UnparseableError(f"Your action is too long: {len(text):,} characters as JSON, of {LARGEST_ACTION:,}.")
        try:
            with contextlib.suppress(ConnectionClosed):  # a full server answers before it closed the socket
                await self._socket.send(text)
            answer = json.loads(await self._socket.recv())
        except asyncio.CancelledError:  # its answer would be taken for that of the next message
            self._socket.transport.abort()
            self._socket = None
            raise
        except (WebSocketException, OSError) as error:
            self._socket = None
            raise EnvironmentDiedError(f"{self._address} closed the session: {error}") from None
        except (ValueError, RecursionError):
            raise EnvironmentFailedError(f"{self._address} sent an answer that is not JSON") from None
        return self._read(kind, answer)

    def _read(self, kind: str, answer: Any) -> dict[str, Any]:
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict):
            raise EnvironmentFailedError(f"{self._address} sent an answer without data")
        if answer.get("type") != "error":
            return data
        code, message = data.get("code"), one_line(str(data.get("message")))
        if code == FULL:
            raise FullError(f"{self._address}: {message}")
        if code in REFUSED and kind == "step":
            reasons = json.dumps(data["errors"], default=str) if data.get("errors") else message
            raise UnparseableError(f"The environment cannot read your action: {reasons[:LONGEST_REASON]}")
        if code == "SESSION_ERROR":
            raise EnvironmentDiedError(f"{self._address}: {message}")
        raise EnvironmentFailedError(f"{self._address}: {message} ({code})")


class FullError(InfrastructureError):
    """All places of a server are taken."""


async def places_at(address: Address, base: str) -> int:
    """Return how many sessions a server opens at a time, counted up to ``MOST_PLACES``."""
    sessions = [OpenEnvSession(address, base) for _ in range(MOST_PLACES)]
    try:
        for opened, session in enumerate(sessions):
            if not await session.opens():
                return opened
        return MOST_PLACES
    finally:
        await asyncio.gather(*(session.close() for session in sessions))


async def fetched(address: Address, base: str, name: str) -> dict[str, Any]:
    """Return the JSON object that a server shows at ``/schema`` or ``/metadata``.

    Raises:
        UsageError: the server refuses the token, or is not an OpenEnv server.
        InfrastructureError: it cannot be reached.
    """
    token, path = address.token, f"{f'/{base}' if base else ''}/{name}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with httpx.AsyncClient(timeout=OPENING, trust_env=False) as client:
            answer = await client.get(f"{str(address).replace('ws', 'http', 1)}{path}", headers=headers)
    except httpx.HTTPError as error:
        raise _unreachable(address, error) from None
    if answer.status_code != httpx.codes.OK:
        raise refused(address, answer.status_code, path)
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{address} is not an OpenEnv server: {path} is not a JSON object")
    return found


def _unreachable(address: Address, error: Exception) -> InfrastructureError:
    return InfrastructureError(
        f"cannot reach {address}: {error or type(error).__name__}; is an OpenEnv server running there? "
        "(with TLS, it is openenv+tls://…)"
    )


def refused(address: Address, status: int, path: str) -> Exception:
    """Return the error for a server that answers with an HTTP status instead of what is wanted."""
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return UsageError(f"{address} refused the token; {address.token_hint}")
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return InfrastructureError(f"{address} does not serve {path} now (HTTP {status})")
    return UsageError(f"{address} is not an OpenEnv server (HTTP {status} for {path})")
