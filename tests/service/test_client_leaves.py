"""A client that disconnects while its episode starts frees the place of the episode at once."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import socket
import threading
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import Request
from websockets.sync.client import connect

import turnwise as tw
from turnwise.service.incoming import ClientGone, unless_gone
from turnwise.tasks.spec import TaskSpec

from .environment_servers import TOKEN, serving, until

SLOW = "test/SlowStart-v0"
BEARER = f"Bearer {TOKEN}"
NEMO = "Basic " + base64.b64encode(f"nemo:{TOKEN}".encode()).decode()
ROW = {"responses_create_params": {"input": []}, "turnwise": {"env": SLOW, "split": "train", "index": 4}}


class SlowStart(tw.ToolEnv):
    """Wait in ``reset`` until the test sets ``proceed``."""

    started: ClassVar[threading.Event]
    proceed: ClassVar[threading.Event]

    def start(self, task: TaskSpec, rng: tw.Rng) -> str:
        self.started.set()
        self.proceed.wait(30)
        return "ready"

    @tw.tool
    def press(self) -> str:
        """Press the button."""
        return "pressed"


@pytest.fixture
def events() -> None:
    tw.register(SLOW, SlowStart)
    SlowStart.started, SlowStart.proceed = threading.Event(), threading.Event()
    SlowStart.proceed.set()  # at startup the server creates an instance to describe it


def rpc(method: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}


def send_request(server: Any, path: str, auth: str, body: dict[str, Any]) -> socket.socket:
    """Open a connection and send a request, without reading the response."""
    text = json.dumps(body).encode()
    url = urlsplit(server.address)
    connection = socket.create_connection((url.hostname, url.port))
    head = [f"POST {path} HTTP/1.1", f"Host: {url.netloc}", f"Authorization: {auth}", f"Content-Length: {len(text)}"]
    connection.sendall("\r\n".join([*head, "", ""]).encode() + text)
    return connection


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
def test_a_client_that_disconnects_during_the_start_frees_its_place(
    events: None, path: str, auth: str, body: dict[str, Any]
) -> None:
    with serving([SLOW], capacity=1) as server:
        SlowStart.started.clear()
        SlowStart.proceed.clear()
        connection = send_request(server, path, auth, body)
        assert SlowStart.started.wait(20)
        assert server.episodes.places.load == 1
        connection.close()
        try:
            until(lambda: server.episodes.places.load == 0, 10, "the place was not freed")
            until(lambda: len(server.episodes) == 0, 10)
        finally:
            SlowStart.proceed.set()


def initialized(server: Any) -> tuple[str, str]:
    """Start an MCP session over HTTP; return its URL and its id."""
    url = f"{server.address.replace('ws', 'http', 1)}/openenv/{SLOW}/mcp"
    response = httpx.post(url, json=rpc("initialize"), headers={"Authorization": BEARER})
    return url, response.headers["mcp-session-id"]


def test_an_mcp_client_that_does_not_come_back_frees_its_place(events: None) -> None:
    """To the server, a client that disconnects during the response looks like one that has read it."""
    with serving([SLOW], capacity=1, reattach=0.1, idle=3600) as server:
        with send_request(server, f"/openenv/{SLOW}/mcp", BEARER, rpc("initialize")) as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
        until(lambda: server.episodes.places.load == 0, 20, "the place was not freed")


def test_an_mcp_client_that_comes_back_keeps_its_place(events: None) -> None:
    with serving([SLOW], capacity=1) as server:
        url, session = initialized(server)
        (episode,) = server.episodes._open.values()
        assert episode.connection is None, "reattach is its limit"
        headers = {"Authorization": BEARER, "Mcp-Session-Id": session}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert httpx.post(url, json=note, headers=headers).status_code == 202
        assert episode.connection is not None, "idle is its limit"


@pytest.mark.parametrize(("reattach", "by_header"), [(0.0, True), (30.0, False)], ids=["no-limit", "by-argument"])
def test_an_mcp_client_may_think_before_its_next_call(events: None, reattach: float, by_header: bool) -> None:
    """``idle`` is its limit from its next request on, however that names the episode; at once without ``reattach``."""
    with serving([SLOW], capacity=1, reattach=reattach) as server:
        url, session = initialized(server)
        (episode,) = server.episodes._open.values()
        assert (episode.connection is None) == (reattach > 0)
        params = {} if by_header else {"session_id": session}
        headers = {"Authorization": BEARER} | ({"Mcp-Session-Id": session} if by_header else {})
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": params}
        assert "result" in httpx.post(url, json=call, headers=headers).json()
        assert episode.connection is not None


def test_work_that_finishes_after_a_disconnect_gets_no_response() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def done() -> str:
        return "unread response"

    with pytest.raises(ClientGone):
        asyncio.run(unless_gone(Request({"type": "http"}, receive), done()))


def test_an_mcp_episode_ends_when_its_socket_closes(events: None) -> None:
    with serving([SLOW], capacity=1) as server:
        with connect(f"{server.address}/ws", additional_headers={"Authorization": BEARER}) as client:
            client.send(json.dumps({"type": "mcp", "data": rpc("openenv/session/create")}))
            answer = json.loads(client.recv(20))
            assert "session_id" in answer["data"]["result"], answer
            assert server.episodes.places.load == 1
        until(lambda: server.episodes.places.load == 0, 10, "the place was not freed")


def test_a_named_nemo_session_survives_a_disconnect(events: None) -> None:
    named = {"resources_session_id": secrets.token_hex(16), "task_data": ROW}
    with serving([SLOW], capacity=1) as server:
        SlowStart.started.clear()
        SlowStart.proceed.clear()
        send_request(server, "/seed_session", NEMO, named).close()
        assert SlowStart.started.wait(20)
        SlowStart.proceed.set()
        with send_request(server, "/seed_session", NEMO, named) as again:
            assert again.recv(12) == b"HTTP/1.1 200"
        assert server.episodes.places.load == 1, "the retry joined the same session"
