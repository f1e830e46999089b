"""One POST over a real socket: bounded in bytes and time, whatever the other side does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from turnwise.agents.chat_apis.faults import FaultError, Response
from turnwise.agents.chat_apis.settings import ApiSettings
from turnwise.agents.chat_apis.transport import UnreachableError, http_client, post

from ..listening import listening

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Manner = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def good(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 2\r\n\r\n{}")


async def cut(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 200\r\n\r\n{")


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
    await writer.drain()
    writer.transport.abort()


async def garbage(writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello\r\n\r\n")


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
        await writer.drain()


async def stalled(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 2\r\n\r\n{")
    await writer.drain()
    await asyncio.Event().wait()


async def asked(manner: Manner, *, timeout: float = 30.0) -> Response:
    """Ask a server that answers in one manner."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await manner(writer)

    async with listening(serve) as url, http_client(url) as http:
        return await post(http, f"{url}/x", b"{}", {}, timeout=timeout, max_bytes=100_000)


async def test_a_good_answer_is_read_to_its_end() -> None:
    found = await asked(good)
    assert (found.status, found.content) == (200, b"{}")


@pytest.mark.parametrize(
    ("manner", "kind"), [(cut, "broken connection"), (reset, "broken connection"), (garbage, "broken connection")]
)
async def test_a_broken_connection_is_a_fault(manner: Manner, kind: str) -> None:
    with pytest.raises(FaultError) as caught:
        await asked(manner)
    assert (caught.value.kind, caught.value.lost) == (kind, True), "the answer may have been billed"


async def test_an_endless_answer_is_given_up_at_its_bound() -> None:
    with pytest.raises(FaultError, match="longer than 100,000 bytes"):
        await asked(endless)


async def test_a_stall_ends_at_the_timeout() -> None:
    with pytest.raises(FaultError, match=r"has not answered within 0\.01 s"):
        await asked(stalled, timeout=0.01)


async def test_nobody_there() -> None:
    async with http_client("http://127.0.0.1:9") as http:
        with pytest.raises(UnreachableError, match="cannot be reached") as caught:
            await post(http, "http://127.0.0.1:9/x", b"{}", {}, timeout=30.0, max_bytes=100)
    assert not caught.value.lost, "nothing was sent"


@pytest.mark.parametrize(
    ("given", "timeout", "patience"),
    [
        ({}, 300, 900),
        ({"patience": 60}, 54, 60),
        ({"patience": 5000}, 300, 5000),
        ({"timeout": 10}, 10, 900),
        ({"timeout": 400}, 400, 1200),
    ],
)
def test_of_two_times_the_one_that_is_not_set_follows(given: dict[str, float], timeout: float, patience: float) -> None:
    settings = ApiSettings.model_validate(given)
    assert (settings.timeout, settings.patience) == (timeout, patience)
