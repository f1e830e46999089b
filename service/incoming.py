"""Read bounded request bodies, and stop work for clients that have disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from fastapi import Request

from ..errors import RequestError
from .requests import parsed

T = TypeVar("T")
SILENT = 30.0
"""Seconds that a client may leave between two parts of a request's body."""
GONE = 499
"""Status for a client that disconnected; no client reads it."""


class ClientGone(Exception):
    """The client closed the connection before it got an answer."""


async def read_json(request: Request, limit: int) -> Any:
    """Read the JSON of a request's body; an empty body is an empty object.

    Raises:
        RequestError: the body is longer than ``limit`` bytes, is not JSON that the server accepts, or stops halfway.
    """
    body, loop = bytearray(), asyncio.get_running_loop()
    try:
        async with asyncio.timeout(SILENT) as silence:
            async for chunk in request.stream():
                silence.reschedule(loop.time() + SILENT)
                body += chunk
                if len(body) > limit:
                    problem = f"the body is larger than the limit of {limit} bytes"
                    raise RequestError(problem, status=413, code="body_too_large")
    except TimeoutError:
        problem = f"the body stopped after {len(body)} bytes, for {SILENT:g} seconds"
        raise RequestError(problem, status=408, code="body_too_slow") from None
    return parsed(bytes(body) or b"{}")


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Do the work, and cancel it when the client disconnects.

    Raises:
        ClientGone: the client disconnected, even if the work is done by now.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise ClientGone
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
