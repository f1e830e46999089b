"""Faults between a server and the clients of other protocols: no step acts twice, and no place stays taken.

The same faults on our own protocol are in ``test_environments.py`` and ``tests/envs/test_remote.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import turnwise as tw
from turnwise.service import incoming
from turnwise.service import server as server_module

from .environment_servers import ID, OTHER, TOKEN, Tally, serving, until

MALFORMED = [b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b'{"a": ' + b"9" * 10_000 + b"}", b'"\\ud800"', b"NaN"]
LARGE = 10_000_000


class Dialect:
    """A client of one protocol, with one episode.

    Args:
        server: the server.
        seed: index of the task.
        token: token of the client.
    """

    path = ""
    """Route of an action."""

    def __init__(self, server: Any, seed: int = 1, token: str = TOKEN) -> None:
        base = server.address.replace("ws", "http", 1)
        self.http = httpx.Client(base_url=base, headers=self.auth(token), trust_env=False, timeout=20)
        self.seed = seed
        self.start()

    def __enter__(self) -> Dialect:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def auth(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    def start(self) -> None:
        raise NotImplementedError

    def body(self, text: str) -> dict[str, Any]:
        """The request of an action."""
        raise NotImplementedError

    def read(self, answer: httpx.Response) -> str:
        """The observation, or ``""`` for an error."""
        raise NotImplementedError

    def act(self, text: str) -> str:
        return self.read(self.http.post(self.path, json=self.body(text)))

    def end(self) -> None:
        """End the episode as a client of the protocol does after it, whether it is over or lost."""
        raise NotImplementedError

    def in_flight(self, text: str) -> socket.socket:
        """Send an action over a connection of its own, without reading the answer."""
        request = self.http.build_request("POST", self.path, json=self.body(text))
        url = urlsplit(str(request.url))
        lines = [f"{name}: {value}" for name, value in request.headers.items()]
        connection = socket.create_connection((url.hostname, url.port))
        connection.sendall("\r\n".join([f"POST {url.path} HTTP/1.1", *lines, "", ""]).encode() + request.read())
        return connection


class OpenEnvHttp(Dialect):
    path = "/step"

    def start(self) -> None:
        started = self.http.post("/reset", json={"seed": self.seed}).json()
        self.id = started["metadata"]["episode_id"]

    def body(self, text: str) -> dict[str, Any]:
        return {"action": {"text": text}, "episode_id": self.id}

    def read(self, answer: httpx.Response) -> str:
        return str(answer.json()["observation"]["text"]) if answer.status_code == 200 else ""

    def end(self) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": self.id}}
        assert self.http.post("/mcp", json=request).status_code == 200


class Ors(Dialect):
    path = "/call"

    def start(self) -> None:
        self.http.headers["X-Session-ID"] = os.urandom(16).hex()
        assert self.http.post("/create", json={"split": "train", "index": self.seed}).status_code == 200

    def body(self, text: str) -> dict[str, Any]:
        return {"name": "send_text", "input": {"text": text}}

    def read(self, answer: httpx.Response) -> str:
        lines = [line.partition("data: ")[2] for line in answer.text.split("\r\n") if line.startswith("data: ")]
        kinds = [line.partition("event: ")[2] for line in answer.text.split("\r\n") if line.startswith("event: ")]
        if answer.status_code != 200 or kinds[-1] != "end":
            return ""
        return str(json.loads("".join(lines[1:]))["output"]["blocks"][0]["text"])

    def end(self) -> None:
        assert self.http.post("/delete").status_code == 200


class NemoTools(Dialect):
    path = "/send_text"

    def start(self) -> None:
        assert self.http.post("/seed_session", json=self.row()).status_code == 200

    def auth(self, token: str) -> dict[str, str]:
        return {"Authorization": httpx.BasicAuth("nemo", token)._auth_header}

    def row(self) -> dict[str, Any]:
        named = {"env": ID, "split": "train", "index": self.seed}
        return {"responses_create_params": {"input": []}, "turnwise": named}

    def body(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def read(self, answer: httpx.Response) -> str:
        return answer.text if answer.status_code == 200 else ""

    def end(self) -> None:
        self.http.post("/verify", json={**self.row(), "response": {"id": "r", "output": []}})


class NemoSteps(NemoTools):
    path = "/step"

    def start(self) -> None:
        assert self.http.post("/reset", json=self.row()).status_code == 200

    def body(self, text: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        said = {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": content}
        return {**self.row(), "response": {"id": "r", "output": [said]}}

    def read(self, answer: httpx.Response) -> str:
        return str(answer.json()["observation"]) if answer.status_code == 200 else ""

    def end(self) -> None:
        self.http.post("/close", json={})


dialects = pytest.mark.parametrize("dialect", [OpenEnvHttp, Ors, NemoTools, NemoSteps], ids=lambda each: each.__name__)


@pytest.fixture(autouse=True)
def nothing_acted() -> Iterator[None]:
    Tally.acted.clear()
    Tally.released.clear()
    yield
    Tally.released.set()


@dialects
def test_a_malformed_action_is_refused_and_acts_nothing(dialect: type[Dialect]) -> None:
    with serving(capacity=1) as server, dialect(server) as client:
        for body in MALFORMED:
            refused = client.http.post(client.path, content=body, headers={"Content-Type": "application/json"})
            assert 400 <= refused.status_code < 500, (body[:40], refused.text)
        assert client.act("add") == "total 1"
        assert Tally.acted == ["1:add"]
        client.end()
        assert server.episodes.places.load == 0


@dialects
def test_a_request_beyond_the_limit_harms_neither_its_episode_nor_others(dialect: type[Dialect]) -> None:
    with serving(capacity=2) as server, dialect(server) as client, dialect(server, 2, OTHER) as other:
        with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # the server may close while it is being sent
            assert client.http.post(client.path, json=client.body("x" * LARGE)).status_code in (413, 422)
        assert other.act("add") == "total 1"
        assert client.act("add") == "total 1"


@dialects
def test_a_step_whose_client_disconnects_acts_once(dialect: type[Dialect]) -> None:
    with serving(capacity=1) as server, dialect(server) as client:
        with client.in_flight("wait"):
            until(lambda: Tally.acted == ["1:wait"])
        Tally.released.set()
        assert client.act("add") == "total 2", "the step took effect, and the next one follows it"
        assert Tally.acted == ["1:wait", "1:add"]
        client.end()
        assert server.episodes.places.load == 0


@pytest.mark.parametrize(("dialect", "key"), [(OpenEnvHttp, "request_id"), (NemoSteps, "_ng_step_request_id")])
def test_a_repeated_request_with_a_key_acts_once(dialect: type[Dialect], key: str) -> None:
    with serving(capacity=1) as server, dialect(server) as client:

        def act(text: str, name: str | None) -> str:
            return client.read(client.http.post(client.path, json={**client.body(text), key: name}))

        with client.in_flight("wait"):
            until(lambda: Tally.acted == ["1:wait"])
        Tally.released.set()
        assert [act("add", "a"), act("add", "a"), act("add", "b"), act("end", "b")] == ["total 2"] * 2 + ["total 3", ""]
        assert act("add", "a") == "", "a late copy of an earlier request"
        assert [act("end", "c"), act("end", "c")] == ["total 3"] * 2, "also the answer that ends the episode"
        assert Tally.acted == ["1:wait", "1:add", "1:add", "1:end"]
        assert server.episodes.places.load == 0
        assert act("add", "d") == ""
        client.end()


@dialects
def test_a_client_that_does_not_read_holds_neither_others_nor_memory(dialect: type[Dialect]) -> None:
    with serving(capacity=3, send_timeout=0.5) as server, dialect(server) as client, dialect(server, 2, OTHER) as other:
        with client.in_flight("large 20000000") as unread:
            until(lambda: Tally.acted == ["1:large 20000000"])
            started = time.monotonic()
            assert other.act("add") == "total 1"
            assert time.monotonic() - started < 10, "another client must not wait for it"
            mine = unread.getsockname()
            connections = server._server._server.server_state.connections
            until(lambda: all(each.client != mine for each in connections), 20, "it is kept")
        assert client.act("add") == "total 1", "the episode goes on"


def test_a_client_that_reads_slowly_keeps_its_connection() -> None:
    sizes, watched, aborted = iter([100, 40, 40]), list[Any](), list[bool]()
    connection: Any = object.__new__(server_module._Connection)
    connection._unread = 1.0
    connection.flow = SimpleNamespace(pause_writing=lambda: None)
    connection.loop = SimpleNamespace(call_later=lambda seconds, call, *given: watched.append((call, given)))
    connection.transport = SimpleNamespace(
        get_write_buffer_size=lambda: next(sizes), abort=lambda: aborted.append(True)
    )
    connection.pause_writing()
    for expected in ([], [True]):
        call, given = watched.pop()
        call(*given)
        assert aborted == expected, "it is dropped when nothing was read since the last look"


@dialects
def test_half_a_request_holds_nobody_and_is_given_up(dialect: type[Dialect], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "SILENT", 0.5)
    with serving(capacity=1, send_timeout=1.0) as server, dialect(server) as client:
        url = urlsplit(str(client.http.base_url))
        head = f"POST {client.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in client.http.headers.items())
        with socket.create_connection((url.hostname, url.port)) as half:
            half.sendall((head + lines + "\r\n{").encode())
            assert client.act("add") == "total 1"
            client.end()
            assert server.episodes.places.load == 0
            half.settimeout(20)
            status = int(half.recv(12).rpartition(b" ")[2])
            assert 400 <= status < 500, "it is answered, although its body never came"
            while half.recv(4096):  # and then dropped, since another request would count as the rest of the body
                pass


@pytest.mark.slow
@dialects
def test_a_killed_worker_fails_its_episode_alone(dialect: type[Dialect], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # where the server's processes find this module
    tw.register(ID, Tally)
    with serving(isolation="process", capacity=2) as server, dialect(server) as dies:
        assert dies.act("add") == "total 1"
        (episode,) = server.episodes._open.values()
        with dialect(server, 2, OTHER) as works:
            os.kill(episode.host.pid, signal.SIGKILL)
            failed = dies.http.post(dies.path, json=dies.body("add"))
            assert dies.read(failed) == "", "an error, and no observation"
            assert "reward" not in failed.text, "what died has no score"
            assert works.act("add") == "total 1"
            dies.end()
            until(lambda: server.episodes.places.load == 1, 20, "the place was not freed")
        with dialect(server, 3) as again:
            assert again.act("add") == "total 1", "the server starts another one"


def test_sockets_of_openenv_that_go_wrong() -> None:
    """Ten megabytes, a client that does not read, and one that disconnects during a step."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with serving(capacity=1, send_timeout=0.5, frame=1 << 20) as server:

        @contextlib.contextmanager
        def opened() -> Iterator[Any]:
            with connect(f"{server.address}/ws", additional_headers=headers, compression=None) as client:
                client.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
                assert json.loads(client.recv(20))["data"]["observation"]["text"] == "seed 1"
                yield client
                until(lambda: server.episodes.places.load == 0, 20, "the place is still taken")
                client.close_socket()

        def step(text: str) -> str:
            return json.dumps({"type": "step", "data": {"text": text}})

        with opened() as client, contextlib.suppress(ConnectionClosed):
            client.send(step("x" * LARGE))
            client.recv(20)
        with opened() as client, contextlib.suppress(ConnectionClosed, OSError):
            for _ in range(20):
                client.send(step("large 2000000"))
        Tally.acted.clear()
        with opened() as client:
            client.send(step("wait"))
            until(lambda: Tally.acted == ["1:wait"])
            client.close_socket()
            Tally.released.set()
        assert Tally.acted == ["1:wait"]


@pytest.mark.slow
def test_a_half_open_socket_of_openenv_is_dropped() -> None:
    with serving(heartbeat=0.5) as server:
        plain = socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])))
        lines = ["GET /ws HTTP/1.1", "Host: x", f"Authorization: Bearer {TOKEN}", "Connection: Upgrade"]
        lines += ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        plain.sendall("\r\n".join([*lines, "", ""]).encode())
        until(lambda: server._connections == 1)
        until(lambda: server._connections == 0, 30, "it never answers a ping")
        plain.close()
