"""MCP clients of others, each with its own Python, play episodes of ``turnwise mcp`` and ``turnwise serve``."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.messages import Action

from .environment_servers import APPS, TOKEN, serving

SEED = 4
FASTMCP = """
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

def connect(url, headers):
    return Client(StreamableHttpTransport(url, headers=headers))

def greeting(client):
    return client.initialize_result

async def names(client):
    return [tool.name for tool in await client.list_tools()]

async def call(client, name, arguments):
    return await client.call_tool(name, arguments, raise_on_error=False)
"""
SDK_1 = """
from contextlib import asynccontextmanager
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

@asynccontextmanager
async def connect(url, headers):
    async with streamablehttp_client(url, headers=headers) as (read, write, _):
        async with ClientSession(read, write) as session:
            session.greeting = await session.initialize()
            yield session

def greeting(session):
    return session.greeting

async def names(session):
    return [tool.name for tool in (await session.list_tools()).tools]

async def call(session, name, arguments):
    return await session.call_tool(name, arguments)
"""
SDK_2 = """
from contextlib import asynccontextmanager
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

@asynccontextmanager
async def connect(url, headers):
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield client

def greeting(client):
    return client

async def names(client):
    return [tool.name for tool in (await client.list_tools()).tools]

async def call(client, name, arguments):
    return await client.call_tool(name, arguments)
"""
PLAY = """
import asyncio, importlib.metadata, json, sys

async def main(url, headers, calls):
    async with connect(url, headers) as client:
        greeted = greeting(client)
        version = getattr(greeted, "protocolVersion", None) or greeted.protocol_version
        print(json.dumps([version, greeted.instructions, await names(client)]))
        for name, arguments in calls:
            answer = await call(client, name, arguments)
            error = getattr(answer, "is_error", getattr(answer, "isError", None))
            print(json.dumps(["\\n".join(block.text for block in answer.content), error]))

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])))
"""
CLIENTS = {
    "fastmcp 3": ("OPENENV_PYTHON", FASTMCP, "python -m venv v && v/bin/pip install openenv==0.10.0"),
    "mcp 1": ("OPENENV_PYTHON", SDK_1, "python -m venv v && v/bin/pip install openenv==0.10.0"),
    "mcp 2.0": ("VERIFIERS_PYTHON", SDK_2, "python -m venv v && v/bin/pip install verifiers==0.4.0"),
}
"""The variable that names each client's interpreter, its script, and how to install it."""


def chosen(name: str) -> Any:
    variable, _, how = CLIENTS[name]
    reason = f"NOT TESTED with {name}: {how}, and set {variable}=v/bin/python"
    return pytest.param(name, marks=pytest.mark.skipif(variable not in os.environ, reason=reason))


@pytest.fixture(scope="module")
def episode() -> tuple[str, list[str], list[tuple[str, dict[str, Any]]], list[str]]:
    """The oracle's episode in process: first observation, tools, calls, and the text after each."""
    env = tw.make(APPS)
    first, _ = env.reset(options={"task": env.tasks().spec(SEED)})
    calls, texts, over = list[tuple[str, dict[str, Any]]](), list[str](), False
    while not over:
        action = Action.of(env.oracle())
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        calls.append((action.tool_calls[0].name, dict(action.tool_calls[0].arguments)))
        texts.append(observation.text)
    return first.text, [tool.name for tool in env.tools], calls, texts


@contextlib.contextmanager
def served_route() -> Iterator[tuple[str, dict[str, str]]]:
    """``/mcp`` of ``turnwise serve``."""
    with serving([APPS], capacity=1) as server:
        url = server.address.replace("ws", "http", 1)
        yield f"{url}/openenv/{APPS}/mcp?seed={SEED}", {"Authorization": f"Bearer {TOKEN}"}
        assert server.episodes.places.load == 0, "the end of the session ended its episode"


@contextlib.contextmanager
def command() -> Iterator[tuple[str, dict[str, str]]]:
    """``turnwise mcp --http``."""
    if importlib.util.find_spec("mcp") is None:
        pytest.skip("NOT TESTED: pip install 'turnwise[mcp]'")
    line = [sys.executable, "-m", "turnwise.cli", "mcp", APPS, "--seed", str(SEED), "--http", "0"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    watch = threading.Timer(600, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), {}
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("place", [served_route, command])
@pytest.mark.parametrize("name", [chosen(name) for name in CLIENTS])
def test_a_client_of_others_plays_an_episode_to_its_end(name: str, place: Any, episode: Any) -> None:
    variable, script, _ = CLIENTS[name]
    first, tools, calls, texts = episode
    with place() as (url, headers):
        words = [os.environ[variable], "-c", script + PLAY, url, json.dumps(headers), json.dumps(calls)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    (version, instructions, names), *answers = map(json.loads, ran.stdout.splitlines())
    assert version >= "2025-03-26"
    assert (instructions, names[: len(tools)]) == (first, tools)
    assert len(answers) == len(texts)
    for (text, error), expected in zip(answers, texts, strict=True):
        assert text.startswith(expected), "as in process"
        assert not error
    assert (place is served_route) or answers[-1][0].endswith("The episode is over.")
