"""Addresses that are not a policy server, and the connections to one that is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from turnwise.errors import InfrastructureError, TurnwiseError, UsageError
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.http.connections import Connections
from turnwise.inference.serving.http.routes import Call
from turnwise.inference.serving.http.wire import Wire

from ...agents.listening import listening

PAGE = "<!DOCTYPE html>\n<html>\n<h1>Please log in</h1>\n</html>"


@asynccontextmanager
async def answering(head: str, body: str) -> AsyncIterator[str]:
    """A server that gives every request one and the same answer; returns its URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        length = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {head}\r\n{length}{body}".encode())
        await writer.drain()

    async with listening(answer) as address:
        yield address


async def test_what_accepts_and_never_speaks_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.inference.serving.http.probing.VERSION_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, and no process reads
        client = ServerClient(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(InfrastructureError, match="has not answered within"):
            await asyncio.wait_for(client.probe(), 60)
        await client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "body", "error", "said"),
    [
        (
            "302 Found\r\nlocation: https://login.example/in",
            "",
            InfrastructureError,
            "redirects to https://login.example",
        ),
        (
            "308 Permanent Redirect\r\nlocation: /there",
            PAGE,
            InfrastructureError,
            r"\(308\): there is a proxy or login page",
        ),
        ("200 OK\r\ncontent-type: text/html", PAGE, UsageError, "Please log in.* is not a version of vLLM"),
        ("200 OK\r\ncontent-type: application/json", '["0.32.0"]', UsageError, "is not a version of vLLM"),
        ("502 Bad Gateway\r\ncontent-type: text/html", PAGE, InfrastructureError, r"failed \(502\): .*Please log in"),
        ("407 Proxy Authentication Required", PAGE, TurnwiseError, "407.*Please log in"),
        ("200 OK\r\ncontent-encoding: gzip", PAGE, InfrastructureError, "is not gzip as declared"),
    ],
)
async def test_a_page_or_another_service_is_one_line(head: str, body: str, error: type[Exception], said: str) -> None:
    async with answering(head, body) as address:
        client = ServerClient(address)
        with pytest.raises(error, match=said) as raised:
            await client.probe()
        await client.close()
    assert address in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400, "a page is not told whole"


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[str, set[asyncio.Task[None] | None]]]:
    """Something that answers requests for as long as their connections last; its address, and who is connected."""
    met: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(0.02)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        met.remove(asyncio.current_task())

    async with listening(answer) as address:
        yield address, met
        if met:
            await asyncio.wait([task for task in met if task is not None], timeout=60)


async def test_requests_share_as_many_connections_as_are_under_way_at_once() -> None:
    async with counting() as (address, met):
        wire = Wire(address)
        call = Call("/x")
        for _ in range(3):
            await asyncio.gather(*(wire.ask(call) for _ in range(8)))
            assert len(met) == 8, "none is opened again, and none is asked whether it is free"
        asked = asyncio.ensure_future(wire.ask(call))
        await asyncio.sleep(0.01)
        before = set(met)
        asked.cancel()
        while met == before:
            await asyncio.wait([task for task in met if task], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert len(met) == 7, "a cancelled request closes its connection, which is how a server learns of it"
        await asyncio.gather(*(wire.ask(call) for _ in range(8)))
        assert len(met) == 8
        await wire.close()
    assert not met, "none is left open"


async def test_a_client_has_one_connection_so_that_nothing_looks_for_a_free_one() -> None:
    made: list[httpx.AsyncClient] = []

    def make() -> httpx.AsyncClient:
        made.append(httpx.AsyncClient(verify=False, trust_env=False))
        return made[-1]

    connections = Connections(make)
    with connections.borrow() as first, connections.borrow() as second:
        assert first is not second
    with connections.borrow() as again:
        assert again is first, "of those that are free, the one used last"
    assert len(connections) == 2
    with pytest.raises(ValueError, match="broke off"), connections.borrow():
        raise ValueError("broke off")
    await connections.close_broken()
    assert len(connections) == 1, "a client whose request broke off may be stuck, and is not used again"
    assert sum(client.is_closed for client in made) == 1
    await connections.aclose()
    assert all(client.is_closed for client in made)
