"""A server of one's own in the test's loop, which leaves no connection behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]
TICKS = 10
"""Turns of the loop after which who was accepted has a task, and who was aborted no socket; three are needed."""


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    """Serve connections inside the block; yields the address.

    At its end all of them are aborted, also one that was accepted a moment ago. A server that is closed in between
    loses its transport, and a task that is canceled before its first step never runs. Leftovers would be collected,
    with a warning, in another test.
    """
    served: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served[asyncio.current_task()] = writer
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await accepted(server)
        server.close()
        tasks = [task for task in served if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in served.values():
            writer.transport.abort()
        await _ticks()


async def accepted(server: asyncio.Server) -> None:
    """Accept no further connection, and wait until accepted ones are served: then the server can be closed."""
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    await _ticks()


async def _ticks() -> None:
    for _ in range(TICKS):
        await asyncio.sleep(0)
