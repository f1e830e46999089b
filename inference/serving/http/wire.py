"""HTTP to one server: connections that live as long as their event loop, and errors that name the address."""

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
"""How long an idle connection is kept: shorter than the server's five, or it closes one just when it is used again."""
MOST_BYTES = 4 * 2**20
"""The longest answer, where a call does not say how long its own may be."""
A_YEAR = 365 * 24 * 3600.0


class Wire:
    """Sends calls and receives answers.

    Connections belong to the event loop that made them, so a wire may be used in one loop after another. Cancelling
    ``send`` closes its connection, on which vLLM aborts the request.

    Args:
        url: e.g. ``http://127.0.0.1:8000``.
        api_key: sent with every request, if the server asks for one.
        timeout: the longest that a request may take, in seconds, from the first byte sent to the last received, where
            it does not say how long itself.

    Raises:
        UsageError: it is not the URL of a server.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        parsed = http_url(url, what=f"server {url!r}", example="http://host:port")
        self.address = str(parsed).rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._longest = timeout
        self._verify = parsed.scheme == "https" and ssl.create_default_context()  # read once, not by every client
        self._clients: dict[bool, Connections] = {}
        self._open: AsyncGenerator[None, None] | None = None
        self._held: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, call: Call, *, once: bool = False, within: float | None = None) -> Answer:
        """Send and receive.

        Args:
            call: what to send.
            once: over a connection of its own: a kept one may be closed by the server just as it is used again, and
                what must not happen twice cannot simply be sent again.
            within: the longest that this one may take, where that is not what others may; ``math.inf`` where whoever
                asks bounds it.

        Raises:
            PolicyServerError: the answer is longer than it may be.
            InfrastructureError: the network failed, or the answer was not whole in time.
        """
        connections = (await self._connections())[once]
        await connections.clean()
        limit = self._longest if within is None else within
        method = "GET" if call.body is None else "POST"
        try:
            with connections.lent() as http:
                sent = http.stream(method, call.path, json=call.body, headers=call.headers)
                async with asyncio.timeout(limit if limit < math.inf else None), sent as response:
                    body = await read_body(response, call.most_bytes or MOST_BYTES)
                http.cookies.clear()  # a server that sets new ones without end would fill the memory
        except BodyError as error:
            raise self.named(PolicyServerError(str(error))) from None
        except TimeoutError:
            raise InfrastructureError(f"server {self.address} has not answered within {limit:g} s") from None
        except httpx.HTTPError as error:
            said = shortened(error, 300) or type(error).__name__
            raise InfrastructureError(f"server {self.address} cannot be reached: {said}") from error
        if response.has_redirect_location:  # followed, it would be another server, that weights are not sent to
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
        """Send, and what came, if it is no refusal."""
        return self.checked(await self.send(call))

    def checked(self, answer: Answer) -> Any:
        """What came, if it is no refusal."""
        if 200 <= answer.status < 300:
            return answer.content
        raise self.named(refusal(answer))

    def named(self, error: TurnwiseError) -> TurnwiseError:
        """An error that says which server it is about."""
        return type(error)(f"server {self.address}: {error}")

    async def close(self) -> None:
        """Let go of connections; the next call makes new ones."""
        opened, self._open, self._clients = self._open, None, {}
        if opened is not None and self._held is not None and self._loop is asyncio.get_running_loop():
            self._held.cancel()
            await opened.aclose()

    async def _connections(self) -> dict[bool, Connections]:
        loop = asyncio.get_running_loop()
        if not self._clients or self._loop is not loop:
            clients = {once: Connections(partial(self._client, kept=not once)) for once in (False, True)}
            # What an earlier loop left open was closed with it. The loop itself holds what closes these, or they might
            # be collected, still open, a moment before the loop ends.
            self._clients, self._loop, self._open = clients, loop, _open_in_this_loop(*clients.values())
            self._held = loop.call_later(A_YEAR, self._open.__aiter__)
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
            trust_env=False,  # a proxy of the surroundings between trainer and server is never wanted
        )


async def _open_in_this_loop(*clients: Connections) -> AsyncGenerator[None, None]:
    """Closes connections when their event loop ends, which shuts down the generators that it knows."""
    try:
        yield
    finally:
        for client in clients:
            await client.aclose()
