"""An MCP server as a program, spoken to over its standard streams: one message a line, none without bounds.

The SDK's own transport reads a line of any length into memory, in time that grows with the square of it. What a server
answers can be an agent's choice, so here an answer has a largest size.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

import anyio

from ...errors import ToolError

MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of one line of a server; a longer one is skipped."""
GRACE = 2.0
"""Seconds for a server to exit after its input has ended, and again after a signal to exit."""


class LimitError(ToolError):
    """Raised when a call exceeds its limit of time or the size limit of its answer."""


@asynccontextmanager
async def program(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str | Path, stderr: IO[bytes]
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a program, yield the stream of its messages and that of messages to it, and end it afterwards.

    Args:
        command: its words.
        env: all of its environment variables.
        cwd: the working directory.
        stderr: a file for its standard error.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=stderr, env=env, cwd=cwd, start_new_session=True, limit=MOST_BYTES
    )
    heard, received = anyio.create_memory_object_stream[Any](0)
    said, to_say = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, heard)
        group.start_soon(_write, process, to_say, heard)
        try:
            yield received, said
        finally:
            with anyio.CancelScope(shield=True):
                received.close()
                said.close()
                await _ended(process)
            group.cancel_scope.cancel()
            vars(process)["_transport"].close()  # nothing else closes pipes that a child of the program holds open


async def _read(process: Process, heard: Any) -> None:
    """Send each message of the program on. Read the rest after the session: a full pipe would block the program."""
    assert process.stdout is not None
    async with heard:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for message in _messages(process.stdout):
                await heard.send(message)
        while await process.stdout.read(MOST_BYTES):
            pass


async def _messages(stdout: asyncio.StreamReader) -> AsyncIterator[Any]:
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    passing = False
    while True:
        try:
            line = await stdout.readuntil()
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError as error:
            await stdout.readexactly(error.consumed)
            if not passing:
                yield LimitError(f"the server's answer is longer than {MOST_BYTES} bytes")
            passing = True
            continue
        if not passing:
            text = line.decode(errors="replace")
            try:
                yield SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
            except ValueError as error:
                yield error
        passing = False


async def _write(process: Process, to_say: Any, heard: Any) -> None:
    assert process.stdin is not None
    try:
        async with to_say:
            async for message in to_say:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:
        await heard.aclose()  # it may still run, but the session has ended, and with it all requests


async def _ended(process: Process) -> None:
    """End the program and its descendants: by closing its input, then by a signal, then by force."""
    assert process.stdin is not None
    process.stdin.close()
    for ending in (signal.SIGTERM, signal.SIGKILL):
        if await _gone(process):
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, ending)
    await _gone(process)


async def _gone(process: Process) -> bool:
    """Return whether the program, and whatever holds its output open, ends in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
        return True
    return False
