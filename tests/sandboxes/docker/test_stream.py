"""The held connection, against an engine that is played: it answers late, in pieces, badly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import SandboxError
from turnwise.sandboxes.docker.frames import STDERR, STDOUT
from turnwise.sandboxes.docker.stream import KEPT, Attachment, attach

Engine = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
YES = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def framed(stream: int, content: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


@asynccontextmanager
async def attached(folder: Path, play: Engine) -> Any:
    """Attach to an engine that plays this, and return the streams."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await play(reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(serve, folder / "engine.sock")
    made: Attachment | None = None
    try:
        made = await attach(f"unix://{folder}/engine.sock", "1.41", "abc")
        yield made
    finally:
        if made is not None:
            made.writer.transport.abort()
        server.close()
        await server.wait_closed()


async def test_output_comes_whole_and_errors_are_kept_apart(tmp_path: Path) -> None:
    sent = YES + framed(STDOUT, b"one ") + framed(STDERR, b"x" * 5000 + b"the end") + framed(STDOUT, b"two")

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for place in range(len(sent)):
            writer.write(sent[place : place + 1])
            if place % 50 == 0:
                await writer.drain()
                await asyncio.sleep(0)

    async with attached(tmp_path, play) as made:
        assert await made.reader.read() == b"one two"
        assert made.protocol.said.endswith(b"the end")
        assert len(made.protocol.said) == KEPT


async def test_the_end_of_input_leaves_the_output_open(tmp_path: Path) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(YES)
        writer.write(framed(STDOUT, b"heard " + await reader.read()))

    async with attached(tmp_path, play) as made:
        made.writer.write(b"everything")
        made.writer.write_eof()
        assert await made.reader.read() == b"heard everything"


async def test_an_engine_that_refuses_is_quoted(tmp_path: Path) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 404 Not Found\r\n\r\n{"message":"no such container"}')

    with pytest.raises(SandboxError, match="no such container"):
        async with attached(tmp_path, play):
            pass


async def test_an_engine_that_hangs_up_is_an_error(tmp_path: Path) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        return

    with pytest.raises(SandboxError, match="closed the connection"):
        async with attached(tmp_path, play):
            pass


async def test_an_answer_without_end_is_an_error(tmp_path: Path) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000)

    with pytest.raises(SandboxError, match="does not attach"):
        async with attached(tmp_path, play):
            pass


async def test_what_is_no_frame_ends_the_stream(tmp_path: Path) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(YES + framed(STDOUT, b"good") + b"\x09 nonsense")
        await reader.read()

    async with attached(tmp_path, play) as made:
        assert await made.reader.read() == b"good"
        assert b"an invalid frame" in made.protocol.said


async def test_an_engine_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="cannot reach the docker engine"):
        await attach(f"unix://{tmp_path}/none.sock", "1.41", "abc")
