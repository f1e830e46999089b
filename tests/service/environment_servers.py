"""An environment for server tests, servers in threads of their own, raw clients, and a proxy that loses frames."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest
from websockets.asyncio.client import connect as aconnect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import turnwise as tw
from turnwise.envs.remote.frames import PATH
from turnwise.errors import (
    EnvironmentDiedError,
    EnvironmentTimeoutError,
    PolicyServerError,
    SandboxError,
    UsageError,
)
from turnwise.loop_thread import LoopThread
from turnwise.service.environments.server import EnvironmentServer
from turnwise.service.environments.settings import ServeConfig
from turnwise.tasks.spec import TaskSpec

TOKEN, OTHER, OPERATOR = "t" * 20, "u" * 20, "o" * 20
ID = "test/Tally-v0"
APPS = "turnwise/Apps-v2"
LOOP = LoopThread("test-server", "servers")
OPENENV = pytest.mark.skipif(
    "OPENENV_PYTHON" not in os.environ,
    reason="NOT TESTED with OpenEnv's own client: python -m venv v && v/bin/pip install openenv==0.10.0, and set "
    "OPENENV_PYTHON=v/bin/python",
)
RAISES: dict[str, type[Exception]] = {
    "sandbox": SandboxError,
    "judge": PolicyServerError,
    "late": EnvironmentTimeoutError,
    "died": EnvironmentDiedError,
    "usage": UsageError,
}
"""Errors that an environment raises at a word, with a secret in their text."""


class Tally(tw.TurnEnv):
    """Counts what it does; some words hurt."""

    max_turns = 20
    acted: ClassVar[list[str]] = []
    """Every action of every instance in this process."""
    fork_seconds: ClassVar[float] = 0.0
    """Time that a fork takes."""
    branched: ClassVar[int] = 0
    """Number of forks that have started in this process."""

    released: ClassVar[threading.Event] = threading.Event()
    """Ends the actions that wait."""

    def start(self, task: TaskSpec, rng: tw.Rng) -> str:
        self.secret = f"secret-{rng.randrange(10**9)}"
        self.total = 0
        return f"seed {task.seed}"

    def act(self, action: tw.Action) -> Any:
        word, _, number = action.text.partition(" ")
        self.acted.append(f"{self.task.seed}:{action.text}")
        if word == "sleep":
            time.sleep(float(number))
        if word == "wait":
            self.released.wait(30)
        if word == "die":
            os._exit(3)
        if word == "boom":
            raise ValueError(f"the secret is {self.secret}")
        if word in RAISES:
            raise RAISES[word](f"the secret is {self.secret}")
        if word == "large":
            return "x" * int(number)
        if word == "end":
            return tw.success(f"total {self.total}")
        self.total += 1
        return tw.running(f"total {self.total}", 0.25)

    def fork(self) -> Any:
        type(self).branched += 1
        time.sleep(self.fork_seconds)
        return super().fork()

    def oracle(self) -> str:
        return f"add {self.total}"

    def secrets(self) -> Sequence[str]:
        return (self.secret,)


def task(seed: int = 0) -> TaskSpec:
    return TaskSpec("Tally", seed=seed)


@contextlib.contextmanager
def serving(
    ids: Sequence[str] = (ID,), *, tokens: Sequence[str] = (TOKEN, OTHER), port: int = 0, **settings: Any
) -> Iterator[Any]:
    """A server in the loop of a thread; environments are in threads unless a test says otherwise."""
    if ID in ids:
        tw.register(ID, Tally)
    config = ServeConfig(**{"isolation": "thread", "heartbeat": 0.5, **settings})
    server = EnvironmentServer(ids, config, tokens=tokens, operator=OPERATOR, port=port)
    LOOP.wait(server.start(), 60)
    try:
        yield server
    finally:
        LOOP.wait(server.aclose(), 60)


class Raw:
    """A client that speaks in frames."""

    def __init__(self, server: Any, token: str = TOKEN) -> None:
        self.headers = {"Authorization": f"Bearer {token}"}
        self.address = server.address
        opening = connect(f"{server.address}{PATH}", additional_headers=self.headers, max_size=2**26, compression=None)
        self.socket: ClientConnection = opening.__enter__()
        self.hello = self.next()["data"]
        self.ids = 0

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def next(self, seconds: float = 20.0) -> dict[str, Any]:
        """The next frame except heartbeats."""
        while True:
            frame: dict[str, Any] = json.loads(self.socket.recv(seconds))
            if frame.get("event") != "heartbeat":
                return frame

    def send(self, verb: str, episode: str | None = None, **data: Any) -> int:
        self.ids += 1
        self.socket.send(json.dumps({"id": self.ids, "verb": verb, "episode": episode, "data": data}))
        return self.ids

    def ask(self, verb: str, episode: str | None = None, **data: Any) -> dict[str, Any]:
        """The data of the answer, or its error."""
        id = self.send(verb, episode, **data)
        answer = self.next()
        assert answer["id"] == id
        return answer["data"] if answer["ok"] else answer["error"]  # type: ignore[no-any-return]

    def reset(self, seed: int = 0, **data: Any) -> str:
        episode = secrets.token_hex(16)
        answer = self.ask("reset", episode, env=ID, task=task(seed).to_json(), **data)
        assert "observation" in answer, answer
        return episode


def until(condition: Callable[..., Any], seconds: float = 20.0, why: str = "it never happened") -> None:
    """Wait for a condition, and fail with the reason after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, why
        time.sleep(0.01)


def act(text: str) -> dict[str, Any]:
    return {"text": text}


def text_of(answer: dict[str, Any]) -> str:
    return "".join(part["text"] for message in answer["observation"] for part in message["parts"])


Fate = Callable[[str], Sequence[float]]
"""The delays, in seconds, after which a frame is delivered; none for a lost one."""


@contextlib.contextmanager
def proxy(address: str, up: Fate, down: Fate) -> Iterator[Any]:
    """A proxy that loses, delays and repeats frames; ``cut()`` breaks every connection through it."""
    open_sockets: list[ServerConnection] = []

    async def forward(receive: Any, send: Callable[[str], Awaitable[None]], fate: Fate) -> None:
        async def deliver(frame: str, delay: float) -> None:
            await asyncio.sleep(delay)
            with contextlib.suppress(ConnectionClosed):
                await send(frame)

        late = set()
        with contextlib.suppress(ConnectionClosed):
            while True:
                frame = await receive()
                for delay in fate(frame):
                    if delay == 0:
                        await send(frame)
                    else:
                        late.add(asyncio.create_task(deliver(frame, delay)))

    async def handle(client: ServerConnection) -> None:
        open_sockets.append(client)
        headers = {"Authorization": client.request.headers["Authorization"]} if client.request else {}
        async with aconnect(f"{address}{PATH}", additional_headers=headers, compression=None) as upstream:
            both = [
                asyncio.create_task(forward(client.recv, upstream.send, up)),
                asyncio.create_task(forward(upstream.recv, client.send, down)),
            ]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for each in both:
                each.cancel()
            upstream.transport.abort()
        client.transport.abort()

    async def start() -> Any:
        return await serve(handle, "127.0.0.1", 0, compression=None)

    class Handle:
        def cut(self) -> None:
            async def abort() -> None:
                for each in open_sockets:
                    each.transport.abort()
                open_sockets.clear()

            LOOP.wait(abort())

    server = LOOP.wait(start())
    handle_ = Handle()
    handle_.address = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield handle_
    finally:
        handle_.cut()
        LOOP.wait(_closed(server))


async def _closed(server: Any) -> None:
    server.close(close_connections=False)
