"""One POST whose answer is bounded in bytes and time."""

from __future__ import annotations

import asyncio

import httpx

from ...inference.http_bodies import BodyError, read_body
from .faults import FaultError, Response

CONNECT_SECONDS = 20.0
LOCAL = ("127.", "localhost", "[::1]", "::1", "0.0.0.0")


class UnreachableError(FaultError):
    """No connection: nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "no connection", busy=True)


def http_client(address: str) -> httpx.AsyncClient:
    """A client for one server. It takes a proxy from the environment, but not to this very machine."""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=3.0),
        headers={"accept-encoding": "identity", "content-type": "application/json"},
        trust_env=not httpx.URL(address).host.startswith(LOCAL),
    )


async def post(
    http: httpx.AsyncClient, url: str, body: bytes, headers: dict[str, str], *, timeout: float, max_bytes: int
) -> Response:
    """Send, and read the answer to its end.

    Raises:
        FaultError: the network failed, or the answer took too long or grew too large.
    """
    try:
        async with asyncio.timeout(timeout), http.stream("POST", url, content=body, headers=headers) as response:
            return Response(response.status_code, response.headers, await read_body(response, max_bytes))
    except BodyError as error:
        raise FaultError(str(error), error.kind, lost=True) from None
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.ProxyError) as error:
        raise UnreachableError(f"cannot be reached: {error or type(error).__name__}") from None
    except TimeoutError:
        raise FaultError(f"has not answered within {timeout:g} s", "timeout", busy=True, lost=True) from None
    except httpx.HTTPError as error:
        raise FaultError(f"broke off: {error or type(error).__name__}", "broken connection", lost=True) from None
