"""Standard input and output as an MCP transport that can be stopped at any moment."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO, cast

import anyio

LONGEST = 64 * 1024 * 1024
"""Maximum bytes of one message."""


@asynccontextmanager
async def standard_streams(stdout: TextIO | None = None) -> AsyncIterator[Any]:
    """Return the SDK's transport, reading standard input by the event loop.

    The SDK itself reads on a thread, which keeps a process from ending while no input arrives. While this serves,
    descriptor 0 is empty, and other output goes to standard error: standard output belongs to the protocol.

    Args:
        stdout: file to write to instead of standard output, which is then unchanged.
    """
    from mcp.server.stdio import stdio_server

    private = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    sys.stdout.flush()
    reader = asyncio.StreamReader(limit=LONGEST)
    with os.fdopen(private, "rb", buffering=0) as pipe:
        try:
            protocol = asyncio.StreamReaderProtocol(reader)
            if stat.S_ISCHR(os.fstat(private).st_mode) and not os.isatty(private):
                raise ValueError("the stream is a device such as /dev/null, which an event loop cannot wait for")
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        except ValueError:  # a file or no input, which is read at once
            transport = None
            reader.feed_data(pipe.read())
            reader.feed_eof()
        try:
            out = anyio.wrap_file(stdout) if stdout is not None else None
            async with stdio_server(stdin=cast(Any, _Lines(reader)), stdout=out) as streams:
                yield streams
        finally:
            if transport is not None:
                with suppress(OSError):  # the loop has closed it at its end
                    os.set_blocking(private, True)  # other users of this terminal expect it
                transport.close()


class _Lines:
    """Yield the lines of a stream as text; lines that are too long are skipped."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        while True:
            with suppress(ValueError):  # longer than the limit
                if not (line := await self._reader.readline()):
                    raise StopAsyncIteration
                return line.decode("utf-8", "replace")
