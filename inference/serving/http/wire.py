"""HTTP to one server: connections that live as long as their event loop, and errors that name the server."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import httpx

from ....errors import InfrastructureError, PolicyServerError, TurnwiseError
from ...bounded_json import loads
from ...http_bodies import BodyError, read_body
from ...urls import http_url
from ..answers import Answer, refusal, shortened
from .connections import Connections
from .routes import Call

CONNECT_SECONDS = 10.0
KEEP_SECONDS = 3.0
"""Seconds to keep an idle connection. The server closes one after five seconds, perhaps just as it is used again."""
MOST_BYTES = 4 * 2**20
"""Maximum bytes of an answer to a call without its own limit."""
A_YEAR = 365 * 24 * 3600.0


class Wire:
    """Send calls and receive answers.

    Each event loop gets its own connections, so a wire may be used in one loop after another. Cancelling ``send``
    closes its connection, and vLLM then aborts the request.

    Args:
        url: URL of the server, e.g. ``http://127.0.0.1:8000``.
        api_key: key to send with every request, if the server requires one.
        timeout: default maximum seconds of a request, from the first byte sent to the last received.

    Raises:
        UsageError: the URL is not valid.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        parsed = http_url(url, what=f"server {url!r}", example="http://host:port")
        self.address = str(parsed).rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._verify = parsed.scheme == "https" and ssl.create_default_context()  # read once, not by every client
        self._clients: dict[bool, Connections] = {}
        self._open: AsyncGenerator[None, None] | None = None
        self._closing_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, call: Call, *, once: bool = False, within: float | None = None) -> Answer:
        """Send a call and return its answer.

        Args:
            call: call to send.
            once: whether to use a new connection. The server may close a kept one just as it is used again, and a
                call that must not happen twice cannot be retried.
            within: maximum seconds of this call, if not the default; ``math.inf`` if the caller sets a limit.

        Raises:
            PolicyServerError: the answer exceeds its maximum length.
            InfrastructureError: the network failed, or the answer was not complete in time.
        """
        connections = (await self._connections())[once]
        await connections.close_broken()
        limit = self._timeout if within is None else within
        method = "GET" if call.body is None else "POST"
        try:
            with connections.borrow() as http:
                sent = http.stream(method, call.path, json=call.body, headers=call.headers)
                async with asyncio.timeout(limit if limit < math.inf else None), sent as response:
                    body = await read_body(response, call.most_bytes or MOST_BYTES)
                http.cookies.clear()  # a server that keeps setting new ones would fill the memory
        except BodyError as error:
            raise self.named(PolicyServerError(str(error))) from None
        except TimeoutError:
            raise InfrastructureError(f"server {self.address} has not answered within {limit:g} s") from None
        except httpx.HTTPError as error:
            said = shortened(error, 300) or type(error).__name__
            raise InfrastructureError(f"server {self.address} cannot be reached: {said}") from error
        if response.has_redirect_location:  # do not follow: that server would not receive weights
            there = shortened(response.headers["location"])
            raise InfrastructureError(
                f"server {self.address} redirects to {there} ({response.status_code}): there is a proxy or login page "
                "in front of it; use the URL of the server itself"
            )
        try:
            return Answer(response.status_code, loads(body, largest=math.inf))
        except ValueError:
            return Answer(response.status_code, body.decode("utf-8", "replace"))

    async def ask(self, call: Call) -> Any:
        """Send a call and return the content of its answer; raise for a refusal."""
        return self.checked(await self.send(call))

    def checked(self, answer: Answer) -> Any:
        """Return the content of an answer; raise for a refusal."""
        if 200 <= answer.status < 300:
            return answer.content
        raise self.named(refusal(answer))

    def named(self, error: TurnwiseError) -> TurnwiseError:
        """Return the error with the server's URL in its message."""
        return type(error)(f"server {self.address}: {error}")

    async def close(self) -> None:
        """Close connections; the next call opens new ones."""
        opened, self._open, self._clients = self._open, None, {}
        if opened is not None and self._closing_timer is not None and self._loop is asyncio.get_running_loop():
            self._closing_timer.cancel()
            await opened.aclose()

    async def _connections(self) -> dict[bool, Connections]:
        loop = asyncio.get_running_loop()
        if not self._clients or self._loop is not loop:
            clients = {once: Connections(partial(self._client, kept=not once)) for once in (False, True)}
            # An earlier loop has closed its connections at its end. This timer makes the loop hold the generator that
            # closes the new ones, or both might be collected, still open, a moment before the loop ends.
            self._clients, self._loop, self._open = clients, loop, _open_in_this_loop(*clients.values())
            self._closing_timer = loop.call_later(A_YEAR, self._open.__aiter__)
            await anext(self._open)
            return clients
        return self._clients

    def _client(self, kept: bool) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.address,
            headers=self._headers | {"accept-encoding": "identity"},
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=int(kept), keepalive_expiry=KEEP_SECONDS),
            verify=self._verify,
            trust_env=False,  # a proxy between trainer and server is never wanted
        )


async def _open_in_this_loop(*clients: Connections) -> AsyncGenerator[None, None]:
    """Close connections when their event loop ends, which shuts down its asynchronous generators."""
    try:
        yield
    finally:
        for client in clients:
            await client.aclose()
