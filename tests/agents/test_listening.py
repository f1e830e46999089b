"""The server of the tests leaves nothing behind, whenever its block ends."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from .listening import listening


@pytest.mark.slow
async def test_who_was_accepted_a_moment_ago_is_closed_too() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    for ticks in range(6):
        with socket.socket() as client:
            async with listening(silent) as url:
                client.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
                for _ in range(ticks):
                    await asyncio.sleep(0)
    gc.collect()  # an open transport would warn, which fails this test
