"""``Rate`` bounds requests per second, and ``Pace`` those of each client over HTTP."""

from __future__ import annotations

import asyncio
import math

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import Access

LONGEST = 5.0
"""Seconds that a request may be delayed; one that would have to wait longer is refused."""


class Rate:
    """A number of requests per second, after a burst of as many.

    Args:
        rate: requests per second.
    """

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(1.0, rate)
        self._left = self._most
        self._at = asyncio.get_running_loop().time()

    def take(self, longest: float = math.inf) -> float:
        """Count a request; return the seconds that it has to wait.

        Args:
            longest: longest wait; a request that would have to wait longer does not count.
        """
        now = asyncio.get_running_loop().time()
        self._left, self._at = min(self._most, self._left + (now - self._at) * self._rate), now
        wait = max(0.0, (1 - self._left) / self._rate)
        if wait <= longest:
            self._left -= 1
        return wait


class Pace:
    """ASGI middleware: delays what a client sends over HTTP faster than allowed, on all its connections together.

    A WebSocket has a limit of its own, and a request without a token of the server is refused anyway. A server without
    tokens does not tell its clients apart.

    Args:
        app: the application.
        access: tokens of the clients.
        rate: requests per second of a client.
    """

    def __init__(self, app: ASGIApp, access: Access, rate: float) -> None:
        self._app, self._access, self._rate = app, access, rate
        self._rates: dict[str, Rate] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in its time, or with status 429."""
        client = self._access.client(Headers(scope=scope)) if scope["type"] == "http" else None
        if client is not None:
            if client.name not in self._rates:
                self._rates[client.name] = Rate(self._rate)
            wait = self._rates[client.name].take(LONGEST)
            if wait > LONGEST:
                problem = f"more than {self._rate:g} requests per second (rate); try again in {wait:.0f} s"
                response = JSONResponse({"detail": problem}, 429, {"Retry-After": f"{math.ceil(wait)}"})
                await response(scope, receive, send)
                return
            await asyncio.sleep(wait)
        await self._app(scope, receive, send)
