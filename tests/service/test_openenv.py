"""OpenEnv's grammar on the same address: its messages, its error codes, and its own client where that is installed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import turnwise as tw
from turnwise.envs.messages import Action

from .environment_servers import APPS, ID, OPENENV, OPERATOR, OTHER, TOKEN, Tally, serving, task

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@contextlib.contextmanager
def session(server: Any, env: str = "", headers: dict[str, str] = HEADERS) -> Iterator[ClientConnection]:
    path = f"/openenv/{env}/ws" if env else "/ws"
    with connect(f"{server.address}{path}", additional_headers=headers, compression=None) as socket:
        yield socket


def ask(socket: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    socket.send(json.dumps({"type": kind, "data": data} if data else {"type": kind}))
    answer: dict[str, Any] = json.loads(socket.recv(20))
    return answer


def http(server: Any) -> httpx.Client:
    return httpx.Client(base_url=server.address.replace("ws", "http", 1), headers=HEADERS, trust_env=False, timeout=20)


def test_a_session_of_text(server: Any) -> None:
    with session(server) as socket:
        assert ask(socket, "state")["data"] == {"episode_id": None, "step_count": 0}
        first = ask(socket, "reset", seed=4, episode_id="mine")
        assert first["type"] == "observation"
        assert first["data"]["observation"]["text"] == "seed 4"
        assert (first["data"]["reward"], first["data"]["done"]) == (None, False)
        step = ask(socket, "step", text="add", metadata={"anything": 1})["data"]
        assert (step["observation"]["text"], step["reward"], step["done"]) == ("total 1", 0.25, False)
        state = ask(socket, "state")["data"]
        assert (state["episode_id"], state["step_count"]) == ("mine", 1)
        assert ask(socket, "step", text=7)["data"]["observation"]["text"] == "total 2"
        last = ask(socket, "step", text="end")["data"]
        assert last["done"] is True
        assert last["metadata"] == {
            "episode_id": "mine",
            "turn": 3,
            "terminated": True,
            "truncated": False,
            "success": True,
        }
        assert last["observation"]["metadata"] == last["metadata"], "typed clients read it in the observation"
        assert "secret" not in json.dumps([first, step, state, last])


def test_terminated_and_truncated_stand_in_metadata(server: Any) -> None:
    with session(server) as socket:
        ask(socket, "reset", seed=0)
        for _ in range(19):
            ask(socket, "step", text="add")
        last = ask(socket, "step", text="add")["data"]
        assert last["done"] is True
        assert (last["metadata"]["terminated"], last["metadata"]["truncated"]) == (True, False)


def test_tools_in_openenvs_form(server: Any) -> None:
    with session(server, APPS) as socket:
        before = ask(socket, "step", type="list_tools")["data"]["observation"]["tools"]
        assert all(set(tool) == {"name", "description", "input_schema"} for tool in before)
        ask(socket, "reset", seed=1)
        tools = ask(socket, "step", type="list_tools")["data"]["observation"]["tools"]
        assert all(set(tool) == {"name", "description", "input_schema"} for tool in tools)
        assert {tool["name"] for tool in tools} <= {tool["name"] for tool in before}
        assert ask(socket, "state")["data"]["step_count"] == 0, "listing tools is no turn"
        wrong = ask(socket, "step", type="call_tool", tool_name="nothing", arguments={})["data"]["observation"]
        assert wrong["tool_name"] == "nothing"
        assert wrong["result"] is None
        assert "no tool" in wrong["error"]["message"]
        right = ask(socket, "step", type="call_tool", tool_name="docs_app", arguments={"app": "wallet"})["data"]
        assert right["observation"]["error"] is None
        assert right["observation"]["result"]
        plain = ask(socket, "step", tool_name="docs_app", arguments={"app": "wallet"})["data"]
        assert plain["observation"]["result"] == right["observation"]["result"], "the type of a call has a default"
        several = ask(socket, "step", tool_calls=[{"name": "docs_app", "arguments": {}}], text="hm")["data"]
        assert several["metadata"]["turn"] == 4


def test_the_same_seed_is_the_same_task_as_in_process(server: Any) -> None:
    local = tw.make(APPS)
    with session(server, APPS) as socket:
        for seed in (3, 11):
            observation, _ = local.reset(seed=seed)
            assert ask(socket, "reset", seed=seed)["data"]["observation"]["text"] == observation.text
        spec = local.tasks().spec(5, split="test_iid", level=2)
        observation, _ = local.reset(options={"task": spec})
        assert ask(socket, "reset", task=spec.to_json())["data"]["observation"]["text"] == observation.text


WRONG: list[tuple[str, str]] = [
    ("{", "INVALID_JSON"),
    ("[]", "INVALID_JSON"),
    ('{"type": "fly"}', "UNKNOWN_TYPE"),
    ("{}", "UNKNOWN_TYPE"),
    ('{"type": "step", "data": {"text": "add"}}', "SESSION_ERROR"),
    ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": "x"}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"seed": 1, "split": "moon"}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": 3}', "VALIDATION_ERROR"),
]


def test_errors_have_openenvs_codes_and_the_session_goes_on(server: Any) -> None:
    with session(server) as socket:
        for text, code in WRONG:
            socket.send(text)
            answer = json.loads(socket.recv(20))
            assert answer["type"] == "error", text
            assert answer["data"]["code"] == code, text
        ask(socket, "reset", seed=0)
        for data in ({}, {"move": "left"}, {"text": [5]}, {"text": None}, {"tool_calls": [5]}):
            assert ask(socket, "step", **{"metadata": {}, **data})["data"]["code"] == "VALIDATION_ERROR", data
        failed = ask(socket, "step", text="boom")["data"]
        assert failed["code"] == "EXECUTION_ERROR"
        assert "secret" not in failed["message"]
        assert ask(socket, "step", text="add")["data"]["code"] == "SESSION_ERROR"
        assert ask(socket, "reset", seed=1)["data"]["observation"]["text"] == "seed 1"


def test_an_environments_error_is_hidden_and_keeps_the_session(server: Any) -> None:
    with session(server) as socket:
        for word, code in (("sandbox", "EXECUTION_ERROR"), ("usage", "VALIDATION_ERROR")):
            ask(socket, "reset", seed=0)
            failed = ask(socket, "step", text=word)["data"]
            assert failed["code"] == code
            assert "secret" not in failed["message"]
        assert ask(socket, "reset", seed=1)["data"]["observation"]["text"] == "seed 1"
        assert "moon" in ask(socket, "reset", seed=1, split="moon")["data"]["message"]
    with http(server) as client:
        id = client.post("/reset", json={"seed": 2}).json()["metadata"]["episode_id"]
        failed = client.post("/step", json={"action": {"text": "usage"}, "episode_id": id})
        assert failed.status_code == 422
        assert "secret" not in failed.text
        assert "moon" in client.post("/reset", json={"seed": 2, "split": "moon"}).json()["detail"]
        end = client.post("/step", json={"action": {"text": "end"}, "episode_id": id})
        assert end.json()["done"] is True


def test_a_full_server_says_so_and_closes(server: Any) -> None:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(session(server)) for _ in range(3)]
        for seed, socket in enumerate(sockets):
            ask(socket, "reset", seed=seed)
        late = stack.enter_context(session(server))
        refused = ask(late, "reset", seed=9)["data"]
        assert (refused["code"], refused["active_sessions"], refused["max_sessions"]) == ("CAPACITY_REACHED", 3, 3)
        with pytest.raises(ConnectionClosed):
            late.recv(20)
        sockets[0].send(json.dumps({"type": "close"}))
        with pytest.raises(ConnectionClosed):
            sockets[0].recv(20)
        again = stack.enter_context(session(server))
        assert ask(again, "reset", seed=9)["data"]["observation"]["text"] == "seed 9"


def test_http_describes_the_environment(server: Any) -> None:
    with http(server) as client:
        assert client.get("/health", headers={"Authorization": ""}).json() == {"status": "healthy"}
        assert client.get("/metadata", headers={"Authorization": ""}).status_code == 401
        about = client.get("/metadata").json()
        assert set(about) == {"name", "description", "readme_content", "version", "author", "documentation_url"}
        assert about["name"] == ID
        assert client.get(f"/openenv/{APPS}/metadata").json()["name"] == APPS
        assert client.get("/openenv/no/Such-v0/metadata").status_code == 404
        text, tools = client.get("/schema").json(), client.get(f"/openenv/{APPS}/schema").json()
        assert set(text) == {"action", "observation", "state"}
        assert (text["action"]["title"], tools["action"]["title"]) == ("TextAction", "Action"), "clients go by it"
        assert text["action"]["required"] == ["text"], "one required field: clients may then send the bare value"
        assert "docs_app" in tools["action"]["properties"]["tool_name"]["enum"]
        for path in ("/docs", "/redoc"):  # they would answer without a token
            assert client.get(path, headers={"Authorization": ""}).status_code == 404, path


def test_http_plays_an_episode_by_its_id(server: Any) -> None:
    with http(server) as client:
        first = client.post("/reset", json={"seed": 2}).json()
        assert set(first) == {"observation", "reward", "done", "metadata"}
        id = first["metadata"]["episode_id"]
        step = client.post("/step", json={"action": {"text": "add"}, "episode_id": id}).json()
        assert step["observation"]["text"] == "total 1"
        assert client.get("/state", params={"episode_id": id}).json()["step_count"] == 1
        assert client.get("/state").json() == {"episode_id": None, "step_count": 0}
        lost = client.post("/step", json={"action": {"text": "add"}})
        assert lost.status_code == 409
        assert "/ws" in lost.json()["detail"]
        other = client.post(
            "/step",
            json={"action": {"text": "add"}, "episode_id": id},
            headers={"Authorization": f"Bearer {OPERATOR}"},
        )
        assert other.status_code == 409, "another client must not reach it"
        assert client.post("/step", json={"action": 3, "episode_id": id}).status_code == 422
        assert client.post("/reset", content=b"{").status_code == 422
        both = client.post("/reset", json={"index": 1, "seed": 7})
        assert (both.status_code, "omit seed" in both.text) == (422, True)
        first = client.post("/reset", json={"index": 1, "split": None}).json()
        assert first["observation"]["text"] == "seed 1"
        client.post(
            "/step", json={"action": {"text": "end"}, "episode_id": first["metadata"]["episode_id"]}
        ).raise_for_status()
        end = client.post("/step", json={"action": {"text": "end"}, "episode_id": id}).json()
        assert end["done"] is True
        assert server.episodes.places.load == 0, "an episode that is over gives its place back"


def test_both_grammars_share_the_places(server: Any) -> None:
    with session(server) as socket:
        ask(socket, "reset", seed=0)
        assert server.episodes.places.load == 1
    with http(server) as client:
        answer = client.post("/reset", json={"task": task(3).to_json()}).json()
        assert answer["observation"]["text"] == "seed 3"


CLIENTS = """
import asyncio, sys
from openenv.core.generic_client import GenericEnvClient
url, token, sessions = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def play(seed):
    waits = {"connect_timeout_s": 240, "message_timeout_s": 240}  # all begin at once, maybe on a busy machine
    async with GenericEnvClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, **waits) as env:
        result, total = await env.reset(seed=seed), 0.0
        assert result.observation["text"] == f"seed {seed}", result
        for turn in range(10):
            result = await env.step({"text": "add"})
            assert result.observation["text"] == f"total {turn + 1}", result
            total += result.reward
        state = await env.state()
        result = await env.step({"text": "end"})
        return total, state["step_count"], result.done, result.metadata["success"]

async def main():
    assert set(await asyncio.gather(*map(play, range(sessions)))) == {(2.5, 10, True, True)}
    with GenericEnvClient(base_url=url, headers={"Authorization": f"Bearer {token}"}).sync() as env:
        assert env.reset(seed=7).observation["text"] == "seed 7"

asyncio.run(asyncio.wait_for(main(), 480))
print("played")
"""


def rpc(client: httpx.Client, method: str, path: str = f"/openenv/{APPS}/mcp", **params: Any) -> dict[str, Any]:
    answer = client.post(path, json={"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert (found["jsonrpc"], found["id"]) == ("2.0", 7)
    return found


def test_mcp_lists_and_calls_tools_in_an_episode_of_its_own(server: Any) -> None:
    env = tw.make(APPS)
    env.reset(seed=4)
    with http(server) as client:
        assert rpc(client, "ping")["result"] == {}
        id = rpc(client, "openenv/session/create", seed=4)["result"]["session_id"]
        tools = rpc(client, "tools/list", session_id=id)["result"]["tools"]
        assert [tool["name"] for tool in tools] == [tool.name for tool in env.tools]
        assert all(tool["inputSchema"]["type"] == "object" for tool in tools)
        call = Action.of(env.oracle()).tool_calls[0]
        answer = rpc(client, "tools/call", session_id=id, name=call.name, arguments=dict(call.arguments))["result"]
        assert answer["content"][0]["text"] == env.step(call)[0].text, "as in process"
        assert (answer["isError"], answer["_meta"]["done"], answer["_meta"]["turn"]) == (False, False, 1)
        nested: list[Any] = []
        for _ in range(150):
            nested = [nested]
        for name, given in (("nothing", {}), (call.name, {"app": nested})):
            wrong = rpc(client, "tools/call", session_id=id, name=name, arguments=given)["result"]
            assert wrong["isError"], "neither a call that cannot be made nor one that cannot be read is a success"
        assert "nested too deeply" in wrong["content"][0]["text"]
        assert rpc(client, "openenv/session/close", session_id=id)["result"]["closed"]
        gone = rpc(client, "tools/call", session_id=id, name=call.name)["error"]
        assert (gone["code"], "no such episode" in gone["message"]) == (-32602, True)


def test_mcps_own_session_is_an_episode() -> None:
    env = tw.make(APPS)
    first, _ = env.reset(options={"task": env.tasks().spec(4, split="dev")})
    path = f"/openenv/{APPS}/mcp?seed=4&split=dev"
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}
    with serving([ID, APPS]) as server, http(server) as client:
        opened = client.post(path, json=hello)
        result = opened.json()["result"]
        assert (result["protocolVersion"], result["serverInfo"]["name"]) == ("2025-03-26", APPS)
        assert result["instructions"] == first.text
        client.headers["Mcp-Session-Id"] = id = opened.headers["Mcp-Session-Id"]
        assert server.episodes.places.load == 1
        call = Action.of(env.oracle()).tool_calls[0]
        answer = rpc(client, "tools/call", name=call.name, arguments=dict(call.arguments))["result"]
        assert answer["content"][0]["text"] == env.step(call)[0].text
        assert [tool["name"] for tool in rpc(client, "tools/list")["result"]["tools"]] == [t.name for t in env.tools]
        again = client.post(path, json=hello)
        assert again.headers["Mcp-Session-Id"] == id
        assert "instructions" not in again.json()["result"]
        assert server.episodes.places.load == 1, "a second greeting starts no second episode"
        stranger = {"Authorization": f"Bearer {OTHER}"}
        assert client.delete(path, headers=stranger).status_code == 204
        assert server.episodes.places.load == 1, "another client cannot end it"
        assert client.post(path, json=hello, headers=stranger).status_code == 404
        assert client.get(path).status_code == 405, "the server sends nothing by itself"
        assert client.delete(path, headers={"Authorization": ""}).status_code == 401
        assert client.delete(path).status_code == 204
        assert server.episodes.places.load == 0
        assert client.post(path, json=hello).status_code == 404, "so that the client starts another session"
        del client.headers["Mcp-Session-Id"]
        newer = client.post("/mcp", json=hello | {"params": {"protocolVersion": "2026-07-28"}})
        assert newer.json()["result"]["protocolVersion"] == "2025-06-18"
        assert "Mcp-Session-Id" not in newer.headers, "without tools, there is nothing to call"
        wrong = client.post(f"/openenv/{APPS}/mcp?split=moon", json=hello)
        assert (wrong.json()["error"]["code"], "moon" in wrong.text) == (-32602, True)
        assert server.episodes.places.load == 0


def test_the_routes_are_described_to_clients_with_a_token(server: Any) -> None:
    with http(server) as client:
        described = client.get("/openapi.json").json()
        assert described["info"]["version"]
        assert {"/reset", "/step", "/state", "/mcp"} <= set(described["paths"])
        assert httpx.get(client.base_url.join("/openapi.json"), trust_env=False).status_code == 401


def test_mcp_refuses_what_it_cannot_do() -> None:
    path = f"/openenv/{APPS}/mcp"
    with serving([ID, APPS]) as server, http(server) as client:
        empty = client.post(path, json={})
        assert (empty.status_code, empty.json()["error"]["code"]) == (200, -32600), "what OpenEnv's validation sends"
        assert rpc(client, "no/such")["error"]["code"] == -32601
        alone = rpc(client, "tools/call", name="look", arguments={})["error"]
        assert (alone["code"], "openenv/session/create" in alone["message"]) == (-32602, True)
        assert rpc(client, "openenv/session/create", seed="x")["error"]["code"] == -32602
        assert client.post(path, json={"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        for method in ("initialize", "openenv/session/create"):
            assert client.post(path, json={"jsonrpc": "2.0", "method": method}).status_code == 202
            assert server.episodes.places.load == 0, "nobody could play it"
        assert client.post("/openenv/none/mcp", json={}).status_code == 404
        assert client.post(path, content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
        other = rpc(client, "openenv/session/create", path="/mcp")["result"]["session_id"]
        assert "belongs to" in rpc(client, "tools/list", session_id=other)["error"]["message"]
        stranger = httpx.Client(base_url=client.base_url, headers={"Authorization": f"Bearer {OTHER}"}, trust_env=False)
        with stranger:
            assert "no such episode" in rpc(stranger, "tools/list", path="/mcp", session_id=other)["error"]["message"]
            assert rpc(stranger, "openenv/session/close", path="/mcp", session_id=other)["result"]["closed"]
        assert rpc(client, "tools/list", path="/mcp", session_id=other)["result"]["tools"] == [], "still open"
        rpc(client, "openenv/session/close", path="/mcp", session_id=other)
        assert httpx.post(client.base_url.join("/mcp"), json={}, trust_env=False).status_code == 401


@pytest.mark.parametrize("depth", [0, 120], ids=["flat", "nested"])
def test_bytes_of_steps_that_wait_in_one_episode_are_bounded(depth: int) -> None:
    given: Any = "x" * (1900 - 2 * depth)
    for _ in range(depth):
        given = [given]
    action = {"tool_calls": [{"name": "f", "arguments": {"x": given}}]} if depth else {"text": given}
    with serving([ID], capacity=1, frame=2048) as server, http(server) as client, ThreadPoolExecutor(8) as beside:
        id = client.post("/reset", json={"seed": 1}).json()["metadata"]["episode_id"]
        Tally.released.clear()
        waiting = beside.submit(client.post, "/step", json={"episode_id": id, "action": {"text": "wait"}})
        while not server.episodes._open[id].calls:
            time.sleep(0.01)
        steps = [beside.submit(client.post, "/step", json={"episode_id": id, "action": action}) for _ in range(6)]
        try:
            end = time.monotonic() + 20
            while sum(step.done() for step in steps) < 2:  # 8,192 bytes may wait: four of the six
                assert time.monotonic() < end, "more of them wait"
                time.sleep(0.01)
        finally:
            Tally.released.set()
        answers = [step.result(20) for step in steps]
        assert sorted(answer.status_code for answer in answers) == [200] * 4 + [409] * 2
        assert "too many bytes" in next(answer.text for answer in answers if answer.status_code == 409)
        assert waiting.result(20).status_code == 200


@pytest.mark.slow
def test_a_step_whose_episode_is_closed_is_answered_and_its_session_goes_on(server: Any) -> None:
    def close(client: httpx.Client, id: str) -> None:
        while not any(episode.calls for episode in server.episodes._open.values()):
            time.sleep(0.01)
        assert rpc(client, "openenv/session/close", path="/mcp", session_id=id)["result"]["closed"]

    slow = {"text": "sleep 3"}
    with http(server) as client, ThreadPoolExecutor(1) as beside:
        id = client.post("/reset", json={"seed": 1}).json()["metadata"]["episode_id"]
        stepping = beside.submit(client.post, "/step", json={"episode_id": id, "action": slow})
        close(client, id)
        answer = stepping.result(10)
        assert (answer.status_code, "closed meanwhile" in answer.text) == (409, True), answer.text
        with session(server) as socket:
            id = ask(socket, "reset", seed=2)["data"]["metadata"]["episode_id"]
            socket.send(json.dumps({"type": "step", "data": slow}))
            close(client, id)
            refused = json.loads(socket.recv(10))
            assert (refused["type"], "closed meanwhile" in str(refused["data"])) == ("error", True), refused
            assert ask(socket, "reset", seed=3)["type"] == "observation", "the session goes on"


def test_mcp_on_the_sessions_socket(server: Any) -> None:
    with session(server, APPS) as socket:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        before = ask(socket, "mcp", **request)["data"]["result"]["tools"]
        ask(socket, "reset", seed=4)
        assert {tool["name"] for tool in ask(socket, "mcp", **request)["data"]["result"]["tools"]} <= {
            tool["name"] for tool in before
        }
        request |= {"method": "tools/call", "params": {"name": "nothing", "arguments": {}}}
        answer = ask(socket, "mcp", **request)
        assert answer["type"] == "mcp"
        assert answer["data"]["result"]["isError"]
        assert ask(socket, "state")["data"]["step_count"] == 1, "a call is a step of the session's episode"


@pytest.mark.shift
@OPENENV
def test_openenvs_own_validation_passes() -> None:
    with serving(tokens=()) as server:
        url = server.address.replace("ws", "http", 1)
        command = [os.environ["OPENENV_PYTHON"], "-m", "openenv.cli", "validate", "--url", url]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert "Verdict: PASS" in ran.stdout, ran.stdout + ran.stderr
    assert ran.stdout.count("PASS  ") == 6


@pytest.mark.shift
@OPENENV
@pytest.mark.parametrize("sessions", [4, 64, 256, 512])
def test_openenvs_own_client_plays(sessions: int) -> None:
    with serving(capacity=sessions + 1, connections=sessions + 1) as server:
        url = server.address.replace("ws", "http", 1)
        command = [os.environ["OPENENV_PYTHON"], "-c", CLIENTS, url, TOKEN, str(sessions)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.strip() == "played"
        while server.episodes.places.load:  # the server closes the last sessions after their clients
            time.sleep(0.01)
