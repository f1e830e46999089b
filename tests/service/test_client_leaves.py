"""Clients over HTTP that disconnect while their episode starts: its place is free at once."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from fastapi import Request
from websockets.sync.client import connect

import turnwise as tw
from turnwise.service.incoming import ClientGone, unless_gone
from turnwise.tasks.spec import TaskSpec

from .environment_servers import TOKEN, serving

SLOW = "test/SlowStart-v0"
BEARER = f"Bearer {TOKEN}"
NEMO = "Basic " + base64.b64encode(f"nemo:{TOKEN}".encode()).decode()
ROW = {"responses_create_params": {"input": []}, "turnwise": {"env": SLOW, "split": "train", "index": 4}}


class SlowStart(tw.ToolEnv):
    """Starts only when the test lets it."""

    begun: ClassVar[threading.Event]
    may_begin: ClassVar[threading.Event]

    def start(self, task: TaskSpec, rng: tw.Rng) -> str:
        self.begun.set()
        self.may_begin.wait(30)
        return "ready"

    @tw.tool
    def press(self) -> str:
        """Press the button."""
        return "pressed"


@pytest.fixture
def events() -> None:
    tw.register(SLOW, SlowStart)
    SlowStart.begun, SlowStart.may_begin = threading.Event(), threading.Event()
    SlowStart.may_begin.set()  # the server describes one instance when it starts


def until(met: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not met() and time.monotonic() < deadline:
        time.sleep(0.01)
    return met()


def rpc(method: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}


def sent(server: Any, path: str, auth: str, body: dict[str, Any]) -> socket.socket:
    """A connection with one request and no answer yet."""
    text = json.dumps(body).encode()
    place = urlsplit(server.address)
    opened = socket.create_connection((place.hostname, place.port))
    head = [f"POST {path} HTTP/1.1", f"Host: {place.netloc}", f"Authorization: {auth}", f"Content-Length: {len(text)}"]
    opened.sendall("\r\n".join([*head, "", ""]).encode() + text)
    return opened


@pytest.mark.parametrize(
    ("path", "auth", "body"),
    [
        ("/reset", BEARER, {"seed": 3}),
        (f"/openenv/{SLOW}/mcp", BEARER, rpc("initialize")),
        (f"/openenv/{SLOW}/mcp", BEARER, rpc("openenv/session/create")),
        ("/seed_session", NEMO, ROW),
    ],
    ids=["reset", "initialize", "session/create", "seed_session"],
)
def test_a_client_that_leaves_while_its_episode_starts_keeps_no_place(
    events: None, path: str, auth: str, body: dict[str, Any]
) -> None:
    with serving([SLOW], capacity=1) as server:
        SlowStart.begun.clear()
        SlowStart.may_begin.clear()
        opened = sent(server, path, auth, body)
        assert SlowStart.begun.wait(20)
        assert server.episodes.places.load == 1
        opened.close()
        try:
            assert until(lambda: server.episodes.places.load == 0), "the place was kept for `idle` seconds"
            assert until(lambda: len(server.episodes) == 0)
        finally:
            SlowStart.may_begin.set()


def test_work_that_ends_with_the_connection_is_not_answered() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def done() -> str:
        return "an answer to nobody"

    with pytest.raises(ClientGone):
        asyncio.run(unless_gone(Request({"type": "http"}, receive), done()))


def test_an_episode_that_mcp_starts_on_a_socket_ends_with_it(events: None) -> None:
    with serving([SLOW], capacity=1) as server:
        with connect(f"{server.address}/ws", additional_headers={"Authorization": BEARER}) as client:
            client.send(json.dumps({"type": "mcp", "data": rpc("openenv/session/create")}))
            answer = json.loads(client.recv(20))
            assert "session_id" in answer["data"]["result"], answer
            assert server.episodes.places.load == 1
        assert until(lambda: server.episodes.places.load == 0), "the place was kept for `idle` seconds"


def test_a_nemo_session_with_a_name_of_its_own_waits_for_its_client(events: None) -> None:
    named = {"resources_session_id": secrets.token_hex(16), "task_data": ROW}
    with serving([SLOW], capacity=1) as server:
        SlowStart.begun.clear()
        SlowStart.may_begin.clear()
        sent(server, "/seed_session", NEMO, named).close()
        assert SlowStart.begun.wait(20)
        SlowStart.may_begin.set()
        with sent(server, "/seed_session", NEMO, named) as again:
            assert again.recv(12) == b"HTTP/1.1 200"
        assert server.episodes.places.load == 1, "the same session, since its client asked again"
