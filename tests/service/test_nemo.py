"""NeMo Gym's resources server on the same address: its shapes, its errors, and its own agents where they are installed.

::

    python3.13 -m venv v && v/bin/pip install nemo-gym==0.4.0
    NEMO_PYTHON=v/bin/python pytest --shift all tests/service/test_nemo.py

Release 0.7 also has a check of sessions and reverification, which are then run.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnwise as tw
from turnwise.commands.export_nemo import Agent, export_nemo
from turnwise.commands.nemo_project import write_project
from turnwise.envs.messages import Action, ImagePart, Message, Observation, TextPart
from turnwise.envs.remote.address import Address
from turnwise.errors import UsageError
from turnwise.service.environments import nemo, nemo_routes
from turnwise.service.environments.latest import Latest
from turnwise.service.incoming import read_json
from turnwise.tasks.spec import TaskSpec

from .environment_servers import APPS, ID, OTHER, TOKEN, Raw, Tally, serving


def http(server: Any, token: str = TOKEN) -> httpx.Client:
    """A client as Gym's: the credentials are in the URL, and cookies are kept."""
    base = server.address.replace("ws://", f"http://nemo:{token}@", 1)
    return httpx.Client(base_url=base, trust_env=False, timeout=20)


@pytest.fixture
def client(server: Any) -> Iterator[httpx.Client]:
    with http(server) as client:
        yield client
    assert server.episodes.places.load == 0, "each test ends its sessions"


def row(index: int = 4, env: str = ID, **more: Any) -> dict[str, Any]:
    named = {"env": env, "split": "train", "index": index}
    return {"responses_create_params": {"input": []}, "turnwise": named, "uuid": "kept", **more}


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": content}


def called(name: str, call_id: str = "c1", /, **arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "call_id": call_id, "arguments": json.dumps(arguments)}


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "r", "output": list(output), **more}


def verify(client: httpx.Client, *output: dict[str, Any], **more: Any) -> Any:
    return client.post("/verify", json={**row(), "response": response(*output, **more)})


def step(client: httpx.Client, *output: dict[str, Any], **more: Any) -> Any:
    answer = client.post("/step", json={**row(), "response": response(*output), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_session_of_tools(client: httpx.Client) -> None:
    seeded = client.post("/seed_session", json=row())
    assert (list(seeded.json()), client.cookies.get("turnwise_session") is not None) == (["mcp"], True)
    for total in (1, 2):
        answer = client.post("/send_text", json={"text": "add"})
        assert (answer.text, "turnwise_session" in answer.cookies) == (f"total {total}", True), (
            "the agent keeps only the cookies of the last answer"
        )
    assert client.post("/send_text", json={"text": "end"}).text == "total 2"
    assert "has finished" in client.post("/send_text", json={"text": "add"}).text
    body = {**row(), "response": response(message("done"))}
    verified = client.post("/verify", json=body).json()
    ends = {"success": True, "turns": 3, "terminated": True, "truncated": False}
    assert verified == body | ends | {"reward": 1.5}, "the rewards of all turns, beside what was sent"
    assert client.post("/verify", json=body).json() == verified, "also if the answer was lost"


def test_tools_act_as_in_process(client: httpx.Client) -> None:
    env = tw.make(APPS)
    spec = env.tasks().spec(5, split="test_iid", level=2)
    env.reset(options={"task": spec})
    client.post("/seed_session", json={"turnwise": {"env": APPS, "task": spec.to_json()}})
    while True:
        call = Action.of(env.oracle()).tool_calls[0]
        observation, reward, terminated, _, info = env.step(call)
        assert client.post(f"/{call.name}", json=dict(call.arguments)).text == observation.text
        if terminated:
            break
    assert (verify(client).json()["reward"], info["success"]) == (reward, True)


def test_an_ended_episode_is_kept_until_its_verify() -> None:
    with serving(capacity=1) as server, http(server) as client:
        server.episodes._ended = Latest(2)
        sessions = []
        for _ in range(4):
            client.cookies.clear()
            client.post("/seed_session", json=row())
            client.post("/send_text", json={"text": "end"})
            sessions.append(client.cookies["turnwise_session"])
        for expected in ([200] * 4, [404, 404, 200, 200]):
            found = []
            for session in sessions:
                client.cookies.clear()
                client.cookies.set("turnwise_session", session)
                found.append(verify(client, message("done")).status_code)
            assert found == expected, "the first verify has its reward, and again the latest ones"


def test_sessions_that_nobody_verifies_are_bounded() -> None:
    with serving(capacity=1) as server, http(server) as client:
        server.episodes._awaited = Latest(2)
        for _ in range(4):
            client.cookies.clear()
            client.post("/seed_session", json=row())
            client.post("/send_text", json={"text": "end"})
        assert len(server.episodes) == 2
        assert verify(client, message("done")).status_code == 200, "the latest are there"


def test_paths_of_gyms_observability(client: httpx.Client) -> None:
    before = "/ng-rollout/0-0"
    assert client.post(f"{before}/seed_session", json=row()).status_code == 200
    assert client.post(f"{before}/send_text", json={"text": "add"}).text == "total 1"
    verified = client.post(f"{before}/verify", json={**row(), "response": response()}).json()
    assert (verified["reward"], verified["turns"]) == (0.25, 1)
    client.cookies.clear()
    assert client.post(f"{before}/reset", json=row()).json()["observation"] == "seed 4"
    client.post(f"{before}/close", json={})


def test_an_empty_field_of_a_row_is_absent(client: httpx.Client) -> None:
    empty = {"env": None, "task": None, "split": "train", "index": 4}
    opened = client.post("/reset", json={**row(), "turnwise": empty})
    assert opened.json()["observation"] == "seed 4", opened.text
    client.post("/close", json={})


def test_names_of_other_routes_are_tools_in_a_session_of_tools(client: httpx.Client) -> None:
    client.post("/seed_session", json=row(env=APPS))
    for name in ("step", "reset", "close", "task", "mcp"):
        assert f"there is no tool {name!r}" in client.post(f"/{name}", json={}).text
    nested: list[Any] = []
    for _ in range(150):
        nested = [nested]
    assert "nested too deeply: at most 100" in client.post("/docs_app", json={"app": nested}).text
    assert verify(client).json()["turns"] == 6, "each of them is a turn, as in process"


def test_the_last_message_is_the_last_turn_once(client: httpx.Client) -> None:
    client.post("/seed_session", json=row())
    first, again = (verify(client, called("send_text", text="add"), message("add")).json() for _ in range(2))
    assert (first["reward"], first["turns"], first["success"]) == (0.25, 1, False), "the agent stopped: no success"
    assert again == first
    assert "has finished" in client.post("/send_text", json={"text": "add"}).text
    for output, more in (((message("add"),), {"incomplete_details": {"reason": "max_output_tokens"}}), ((), {})):
        client.post("/seed_session", json=row())
        assert verify(client, *output, **more).json()["turns"] == 0, "the agent was cut off"


def test_an_episode_of_steps(client: httpx.Client) -> None:
    opened = client.post("/reset", json=row()).json()
    info = {"supports_explicit_close": True, "supports_step_idempotency": True}
    assert opened == {"observation": "seed 4", "info": info}
    answer = step(client, message("add"))
    assert (answer["observation"], answer["reward"], answer["terminated"]) == ("total 1", 0.25, False)
    twice = [step(client, message("add"), _ng_step_request_id="k") for _ in range(2)]
    assert [each["observation"] for each in twice] == ["total 2"] * 2, "a request with a key acts once"
    assert client.post("/nothing", json={}).status_code == 400
    last = step(client, message("end"))
    assert (last["terminated"], last["truncated"], last["info"]["success"]) == (True, False, True)
    assert client.post("/close", json={}).json() == {}
    assert client.post("/step", json={**row(), "response": response(message("add"))}).status_code == 404
    known = row() | {"responses_create_params": {"input": [{"role": "user", "content": "seed 4"}]}}
    assert client.post("/reset", json=known).json()["observation"] is None, "the row has the observation already"
    client.post("/close", json={})


def test_calls_of_a_step_get_their_outputs(client: httpx.Client) -> None:
    client.post("/reset", json=row(env=APPS))
    both = step(client, called("docs_app", "c1", app="wallet"), called("nothing", "c2"))
    first, second = both["info"]["tool_outputs"]
    assert (first["call_id"], second["call_id"], both["observation"]) == ("c1", "c2", None)
    assert "wallet" in first["output"]
    assert "there is no tool 'nothing'" in second["output"]
    for given in ("{", '{"app": "\\ud800"}', '{"\\ud800": 1}', '{"app": NaN}'):
        (problem,) = step(client, {**called("docs_app", "c3"), "arguments": given})["info"]["tool_outputs"]
        assert problem == {"call_id": "c3", "output": "Error: the arguments of docs_app are not a JSON object."}
    (text,) = step(client, called("send_text", "c4", text="hello"))["info"]["tool_outputs"]
    assert "there is no tool" not in text["output"], "a call of the tool for texts is a text"
    client.post("/close", json={})


def test_calls_with_one_id_get_all_of_their_outputs(client: httpx.Client) -> None:
    client.post("/reset", json=row(env=APPS))
    (both,) = step(client, called("docs_app", "c1", app="wallet"), called("nothing", "c1"))["info"]["tool_outputs"]
    first, second = both["output"].split("\n")
    assert ("Log in to this app" in first, "there is no tool 'nothing'" in second) == (True, True)
    client.post("/close", json={})


@pytest.mark.parametrize("word", ["boom", "sandbox"])
def test_a_failure_has_no_reward_and_no_secrets(client: httpx.Client, word: str) -> None:
    client.post("/seed_session", json=row())
    failed = client.post("/send_text", json={"text": word})
    assert (failed.status_code, "secret" in failed.text, "log says why" in failed.text) == (500, False, True)
    assert client.post("/send_text", json={"text": "add"}).status_code == 404
    for _ in range(2):
        verdict = verify(client, message("done"))
        assert (verdict.status_code, "reward" in verdict.json()) == (500, False), "an error, so that Gym counts no zero"
    client.post("/seed_session", json=row())
    assert verify(client, message(word)).status_code == 500, "also in the last turn"


def test_a_session_that_its_client_names(client: httpx.Client) -> None:
    ids = {"episode_id": {"rollout_id": "r", "attempt": 0}, "task_id": {"taskset": "t", "task_id": "1"}}
    seed = {"resources_session_id": "mine", **ids, "task_data": row()}
    closed, seeded = {"resources_session_id": "mine", "episode_id": ids["episode_id"]}, []
    for _ in range(2):
        seeded.append(client.post("/seed_session", json=seed).json())
    assert seeded[0] == seeded[1]
    assert (seeded[0]["resources_session_id"], seeded[0]["resources_tools"]["transport"]) == ("mine", "http")
    assert client.post("/send_text", json={"text": "add"}).text == "total 1"
    for name in ("mine", "mine", "never"):
        assert client.post("/close_session", json={**closed, "resources_session_id": name}).status_code == 200
    for name in ("mine", "never"):
        late = client.post("/seed_session", json={**seed, "resources_session_id": name})
        assert (late.status_code, "was closed" in late.text) == (404, True), "a late seed starts nothing"


WRONG: list[tuple[str, Any, int, str]] = [
    ("/seed_session", {}, 422, "export-nemo"),
    ("/seed_session", {"turnwise": {"env": ID, "split": "train"}}, 422, "export-nemo"),
    ("/seed_session", {"turnwise": {"env": "no/Such-v0", "split": "train", "index": 0}}, 404, "no environment"),
    ("/seed_session", {"turnwise": {"split": "moon", "index": 0}}, 400, "no split 'moon'"),
    ("/seed_session", {"turnwise": {"task": {"family": "Other"}}}, 400, "names family 'Other'"),
    ("/seed_session", {"resources_session_id": "x", "task_data": 3}, 422, "task_data must be"),
    ("/seed_session", {"resources_session_id": 3, "task_data": row()}, 422, "resources_session_id must be"),
    ("/seed_session", [1], 422, "the body must be"),
    ("/reset", {"turnwise": {"split": "train", "index": 0}}, 422, "responses_create_params must be"),
    ("/send_text", {"text": "add"}, 400, "begin with seed_session or reset"),
    ("/verify", {}, 422, "export-nemo"),
    ("/verify", {"turnwise": {"split": "train", "index": 0}}, 422, "response must be"),
    ("/verify", {"turnwise": {"split": "moon", "index": 0}, "response": {"output": []}}, 400, "no split 'moon'"),
    ("/aggregate_metrics", {"verify_responses": [3]}, 422, "must be of type dict"),
    ("/close_session", {}, 422, "resources_session_id must be"),
]


@pytest.mark.parametrize(("path", "body", "status", "says"), WRONG)
def test_what_is_wrong_is_answered_in_one_line(
    client: httpx.Client, path: str, body: Any, status: int, says: str
) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, says in answer.json()["detail"]) == (status, True), answer.text
    assert "\n" not in answer.json()["detail"]


ODD: list[Any] = [
    None,
    {"output": None},
    {"output": [3]},
    {"output": [{"type": "message", "content": [3]}]},
    {"output": [{"type": "message", "content": [{"type": "output_text"}]}]},
    {"output": [{"type": "function_call"}]},
    {"output": [{"type": "function_call", "name": "f", "arguments": "{"}]},
    {"output": [{**called("f"), "arguments": "{"}, {"type": "function_call", "name": "f", "arguments": "{}"}]},
    {"output": [{"type": "function_call", "name": "f", "call_id": "c", "arguments": {}}]},
    {"output": [{"type": "function_call", "name": "f", "arguments": "{"}]},
]


def test_responses_of_another_shape_are_refused_and_act_nothing(client: httpx.Client) -> None:
    client.post("/reset", json=row())
    for odd in ODD:
        refused = client.post("/step", json={"response": odd})
        assert refused.status_code == 422, (odd, refused.text)
    assert step(client, message("add"))["info"]["turn"] == 1
    client.post("/close", json={})


def test_tokens_bodies_and_other_protocols(server: Any, client: httpx.Client) -> None:
    base = str(client.base_url.copy_with(username=None, password=None))
    with httpx.Client(base_url=base, trust_env=False) as plain:
        wrong = plain.post("/seed_session", json=row(), auth=("nemo", "w" * 20))
        without = plain.post("/seed_session", json=row())
        for refused in (wrong, without):
            assert (refused.status_code, "host: nemo:TOKEN@HOST" in refused.json()["detail"]) == (401, True)
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        other = plain.post("/reset", json={"seed": 3}, headers=bearer).json()["metadata"]
        ended = {"method": "openenv/session/close", "params": {"session_id": other["episode_id"]}}
        assert plain.post("/mcp", json={"jsonrpc": "2.0", "id": 1, **ended}, headers=bearer).json()["result"]["closed"]
        assert plain.get("/list_environments", headers=bearer).json() == [ID, APPS], "other protocols keep their routes"
        for odd in (b"Basic", b"Basic !", b"Basic \xff", b"Basic bmVtbw=="):
            assert plain.post("/verify", headers=[(b"Authorization", odd)]).status_code in (401, 404)
    assert client.post("/seed_session", json={"x": "y" * server.config.frame}).status_code == 413
    assert client.post("/seed_session", content=b"[" * 5000).status_code == 422
    assert (client.get("/").json(), client.get("/reverify_mode").json()) == ({"status": "ok"}, "stateless")


def test_another_client_reaches_no_session(server: Any, client: httpx.Client) -> None:
    client.post("/seed_session", json=row())
    with http(server, OTHER) as stranger, Raw(server) as raw:
        stranger.cookies.set("turnwise_session", client.cookies["turnwise_session"])
        assert stranger.post("/send_text", json={"text": "add"}).status_code == 404
        assert verify(stranger).status_code == 404
        episode, fork = raw.reset(), os.urandom(16).hex()
        assert raw.ask("fork", episode, **{"as": fork}) == {}
        with http(server) as other:
            other.cookies.set("turnwise_session", fork)
            assert other.post("/send_text", json={"text": "add"}).status_code == 409, "NeMo Gym has no forks"
        for each in (episode, fork):
            raw.ask("close", each)
    assert verify(client).json()["turns"] == 0


def rpc(server: Any, access: Any, method: str, id: int | None = 1, **params: Any) -> Any:
    """The answer of an agent's request over MCP, which has no token of the server."""
    url = server.address.replace("ws://", "http://", 1) + access["url_path"]
    request = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    with httpx.Client(trust_env=False) as agent:
        return agent.post(url, headers=access["headers"], json=request)


def test_an_agent_calls_the_tools_of_its_session_over_mcp(server: Any, client: httpx.Client) -> None:
    access = client.post("/seed_session", json=row(env=APPS)).json()["mcp"]
    assert (access["server_name"], access["transport"], TOKEN in str(access)) == ("turnwise", "http", False)
    started = rpc(server, access, "initialize", protocolVersion="2025-06-18").json()["result"]
    assert (started["protocolVersion"], started["capabilities"]) == ("2025-06-18", {"tools": {}})
    assert rpc(server, access, "notifications/initialized", None).status_code == 202
    tools = {tool["name"]: tool for tool in rpc(server, access, "tools/list").json()["result"]["tools"]}
    assert {"docs_app", "send_text"} <= set(tools)
    assert tools["docs_app"]["inputSchema"]["required"] == ["app"]
    answer = rpc(server, access, "tools/call", name="docs_app", arguments={"app": "wallet"}).json()["result"]
    assert answer["content"][0]["text"] == client.post("/docs_app", json={"app": "wallet"}).text, "the same session"
    assert (answer["isError"], set(answer)) == (False, {"content", "isError"}), "an agent reads no reward"
    wrong = rpc(server, access, "tools/call", name="nothing").json()["result"]
    assert (wrong["isError"], "there is no tool 'nothing'" in wrong["content"][0]["text"]) == (True, True)
    assert "there is no method" in rpc(server, access, "openenv/session/create").json()["error"]["message"]
    assert verify(client).json()["turns"] == 3
    late = rpc(server, access, "tools/call", name="docs_app").json()["result"]
    assert (late["isError"], late["content"][0]["text"]) == (True, nemo.FINISHED)


def test_a_header_of_mcp_opens_its_session_alone(server: Any, client: httpx.Client) -> None:
    accesses = []
    for _ in range(2):
        accesses.append(client.post("/seed_session", json=row()).json()["mcp"])
        rpc(server, accesses[-1], "tools/call", name="send_text", arguments={"text": "add"})
    (name, first), (_, second) = (next(iter(access["headers"].items())) for access in accesses)
    for wrong in ("", first[:32], first[:32] + second[32:], first[:-1] + "\u00e9", "x" * 64):
        refused = rpc(server, accesses[0] | {"headers": {name: wrong.encode("latin-1")}}, "tools/list")
        assert (refused.status_code, "no such session" in refused.json()["detail"]) == (401, True)
    with httpx.Client(trust_env=False, headers=accesses[0]["headers"]) as agent:
        url = str(client.base_url.copy_with(username=None, password=None))
        assert agent.get(f"{url}/mcp").status_code == 405, "no stream of events"
        assert agent.post(f"{url}/verify", json=row()).status_code == 404, "and no route but this"
        assert agent.post(f"{url}/mcp", content=b"[" * 5000).status_code == 400
        assert agent.post(f"{url}/mcp", json={"x": "y" * server.config.frame}).status_code == 413
    assert verify(client).json()["turns"] == 1
    client.cookies.set("turnwise_session", first[:32])
    assert verify(client).json()["turns"] == 1


def test_a_session_that_is_closed_while_a_request_over_mcp_arrives_is_gone(
    server: Any, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = client.post("/seed_session", json=row()).json()["mcp"]
    id = client.cookies["turnwise_session"]

    async def read(request: Any, limit: int) -> Any:
        body = await read_json(request, limit)
        await server.episodes.close(server.episodes.owner(id), id)
        return body

    monkeypatch.setattr(nemo_routes, "read_json", read)
    gone = rpc(server, access, "tools/list")
    assert (gone.status_code, "no such episode" in gone.json()["detail"]) == (401, True)


def answered(call_id: str, output: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def offered(row: dict[str, Any]) -> dict[str, Any]:
    """A row of ``simple_agent``."""
    tools = [{"type": "function", "name": "send_text", "parameters": {}}]
    return row | {"responses_create_params": {"input": [], "tools": tools}}


def by_calls(client: httpx.Client, words: Sequence[str], last: str) -> tuple[list[dict[str, Any]], Any]:
    """The output of an agent that acts by calls, and its verdict."""
    client.post("/seed_session", json=row())
    output: list[dict[str, Any]] = []
    for turn, word in enumerate(words):
        output.append(called("send_text", f"c{turn}", text=word))
        output.append(answered(f"c{turn}", client.post("/send_text", json={"text": word}).text))
    output.append(message(last))
    return output, verify(client, *output).json()


def by_steps(client: httpx.Client, index: int, env: str, *turns: Sequence[dict[str, Any]]) -> Any:
    """The output of an agent that acts by steps, and the sum of its rewards."""
    client.cookies.clear()
    client.post("/reset", json=row(index, env))
    output, paid = list[dict[str, Any]](), 0.0
    for turn in turns:
        answer = step(client, *turn)
        output, paid = [*output, *turn], paid + answer["reward"]
        if not answer["terminated"]:
            output += [answered(each["call_id"], each["output"]) for each in answer["info"]["tool_outputs"]]
            output += [{"role": "user", "content": answer["observation"]}] if answer["observation"] else []
    client.post("/close", json={})
    return output, paid


def again(server: Any, row: dict[str, Any], *output: dict[str, Any], **more: Any) -> Any:
    """The verdict about a stored rollout."""
    with http(server) as client:
        found = client.post("/verify", json={**row, "response": response(*output, **more)})
        assert found.status_code == 200, found.text
        return found.json()


@pytest.mark.parametrize(
    ("words", "last", "total"),
    [(("add", "add"), "add", 0.75), (("add", "end", "add"), "done", 1.25), ((), "end", 1.0)],
)
def test_a_stored_rollout_of_calls_is_verified_again(
    server: Any, client: httpx.Client, words: Sequence[str], last: str, total: float
) -> None:
    output, verdict = by_calls(client, words, last)
    stored = offered(row())
    assert verdict["reward"] == total
    assert again(server, stored, *output) == verdict | stored | {"response": response(*output)}
    cut = again(server, stored, *output, incomplete_details={"reason": "max_output_tokens"})
    assert cut["turns"] == min(len(words), verdict["turns"]), "the last message was cut off, so that it did not act"
    own = [called("Bash", "b", command="ls"), answered("b", "a file")]
    named = [each | ({"name": f"mcp__turnwise__{each['name']}"} if "name" in each else {}) for each in output]
    if words:
        assert again(server, row(), *own, *named)["reward"] == total, "over MCP, by an agent with tools of its own"


def test_calls_that_never_reached_the_environment_are_no_turns(server: Any, client: httpx.Client) -> None:
    output, verdict = by_calls(client, ("add",), "done")
    malformed = [{**called("send_text", "m"), "arguments": "{"}, answered("m", "Invalid tool call arguments")]
    unmade = called("send_text", "u", text="end")
    assert again(server, offered(row()), *malformed, unmade, *output)["reward"] == verdict["reward"] == 0.5


def test_a_stored_rollout_of_steps_is_verified_again(server: Any, client: httpx.Client) -> None:
    for words, total, success in ((("add", "add", "end"), 1.5, True), (("add",), 0.25, False)):
        output, paid = by_steps(client, 4, ID, *([message(word)] for word in words))
        verdict = again(server, row(), *output)
        assert (verdict["reward"], verdict["success"], paid) == (total, success, total)
    both = [called("docs_app", "c1", app="wallet"), called("nothing", "c2")]
    output, paid = by_steps(client, 4, APPS, both, [message("hello")], [called("docs_app", "c3", app="mail")])
    verdict = again(server, row(4, APPS), *output)
    assert (verdict["reward"], verdict["turns"], "mask_sample" in verdict) == (paid, 3, False)


def test_a_rollout_that_plays_otherwise_now_is_masked(server: Any, client: httpx.Client) -> None:
    output, _ = by_calls(client, ("add", "add"), "done")
    changed = [each | ({"output": "total 7"} if each.get("output") == "total 2" else {}) for each in output]
    verdict = again(server, offered(row()), *changed)
    assert (verdict["reward"], verdict["mask_sample"], verdict["failure_kind"]) == (0.0, True, "verifier_error")
    assert "turn 2 differs: 'total 2' now, 'total 7' in the rollout" in verdict["failure_reason"]
    ended, _ = by_steps(client, 4, ID, [message("end")])
    further = again(server, row(), *ended, {"role": "user", "content": "total 0"}, message("add"))
    assert (further["mask_sample"], "differs: nothing now" in further["failure_reason"]) == (True, True)


def test_a_failure_while_it_plays_again_is_masked_and_has_no_secrets(server: Any, client: httpx.Client) -> None:
    for word in ("boom", "sandbox", "late"):
        output = [called("send_text", "c", text=word), answered("c", "total 1")]
        verdict = again(server, offered(row()), *output)
        assert (verdict["mask_sample"], "secret" in verdict["failure_reason"]) == (True, False)
        assert "log says why" in verdict["failure_reason"]


class Unsure(Tally):
    """An environment that promises no second game like the first."""

    contract = tw.Contract(exempt={"replay_equals_original": "it draws lots"})


def test_an_environment_that_cannot_play_again_says_so() -> None:
    tw.register("test/Unsure-v0", Unsure)
    with serving([ID, "test/Unsure-v0"]) as server, http(server) as client:
        assert client.get("/reverify_mode").json() == "unsupported"


def test_a_full_server_lets_sessions_wait(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nemo_routes, "WAIT", 0.05)
    with serving(capacity=1) as server, http(server) as one, http(server) as two:
        one.post("/seed_session", json=row())
        full = two.post("/seed_session", json=row())
        assert (full.status_code, "1 of 1 places" in full.text) == (503, True)
        verify(one)
        assert two.post("/seed_session", json=row()).status_code == 200, "the end of an episode frees its place"


def test_sessions_beyond_the_queue_are_refused_at_once_and_hear_its_limit() -> None:
    with serving(capacity=1, waiting=0) as server, http(server) as one, http(server) as two:
        one.post("/seed_session", json=row())
        refused = two.post("/seed_session", json=row())
        assert (refused.status_code, "1 of 1 places" in refused.text, "`waiting`" in refused.text) == (503, True, True)
        verify(one)


def test_rows_of_the_command_play(server: Any, client: httpx.Client, tmp_path: Path) -> None:
    tw.connect(server.address, token=TOKEN)
    place = server.address.partition("://")[2]
    written: dict[tuple[str, Agent], list[Any]] = {}
    for id, agent in ((f"turnwise://{place}/{APPS}", Agent.SIMPLE), (APPS, Agent.SIMPLE), (APPS, Agent.GYMNASIUM)):
        out = tmp_path / f"{len(written)}.jsonl"
        export_nemo(id, out=out, n=2, split="dev", level="", seed=0, agent=agent)
        written[id, agent] = [json.loads(line) for line in out.read_text().splitlines()]
    remote, local, steps = written.values()
    assert remote == local, "the same rows from the server's id, which name the environment as the server knows it"
    names = [[tool["name"] for tool in rows[0]["responses_create_params"]["tools"]] for rows in (local, steps)]
    assert names[0] == [*names[1], "send_text"]
    assert "docs_app" in names[1]
    assert client.post("/reset", json=steps[1]).json()["observation"] is None
    client.post("/close", json={})
    client.post("/seed_session", json=local[1])
    assert "wallet" in client.post("/docs_app", json={"app": "wallet"}).text
    assert verify(client).json()["turns"] == 1


def test_the_project_that_gyms_commands_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving([ID, APPS]) as server:
        place, project = server.address.partition("://")[2], tmp_path / "gym"
        monkeypatch.setenv("TURNWISE_TOKEN", f"{place}={TOKEN},gpu-8:8791={OTHER}")
        _written_once(place, project, tmp_path)
    printed = "".join(capsys.readouterr())
    assert "export TURNWISE_GYM_TOKEN=TOKEN" in printed
    files = sorted(str(path) for path in project.rglob("*") if path.is_file())
    assert sorted(line for line in printed.splitlines() if line.startswith(f"{project}/")) == files
    assert TOKEN not in printed
    with pytest.raises(UsageError, match="without TLS"):
        write_project(tmp_path / "tls", Address("host", 443, tls=True), "simple_agent", 20)
    write_project(tmp_path / "open", Address("::1", 8791), "simple_agent", 20)
    assert 'host: "nemo@[::1]"' in (tmp_path / "open/resources_servers/turnwise/configs/turnwise.yaml").read_text()


def _written_once(place: str, project: Path, tmp_path: Path) -> None:
    options: Any = {"n": 1, "split": "train", "level": "", "seed": 0, "agent": Agent.GYMNASIUM, "project": project}
    export_nemo(f"turnwise://{place}/{ID}", out=tmp_path / "rows.jsonl", **options)
    config = (project / "resources_servers/turnwise/configs/turnwise.yaml").read_text()
    user = "nemo:${oc.env:TURNWISE_GYM_TOKEN}"
    assert f'host: "{user}@127.0.0.1"' in config, "a token does not belong into files, and ours may be several"
    assert f"port: {place.rpartition(':')[2]}\n" in config
    assert "gymnasium_agent:\n      entrypoint: app.py\n      max_steps: 21\n" in config
    with pytest.raises(UsageError, match="already exists; name another folder"):
        export_nemo(f"turnwise://{place}/{ID}", out=tmp_path / "more.jsonl", **options)
    with pytest.raises(UsageError, match="write the environment as turnwise://host:port/ID"):
        export_nemo(ID, out=tmp_path / "more.jsonl", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gym", "rows.jsonl"]


def test_rows_of_another_version_are_refused(server: Any, client: httpx.Client, tmp_path: Path) -> None:
    for number, (words, status) in enumerate(((["env_kwargs.max_turns=7"], 409), ([], 200))):
        out = tmp_path / f"{number}.jsonl"
        export_nemo(APPS, words, out=out, n=1, split="dev", level="", seed=0, agent=Agent.SIMPLE)
        for path in ("/seed_session", "/reset"):
            client.cookies.clear()
            opened = client.post(path, content=out.read_text())
            assert (opened.status_code, "other arguments" in opened.text) == (status, status == 409), opened.text
            client.post("/verify" if path == "/seed_session" else "/close", json={"response": response()})


def test_a_session_without_requests_ends() -> None:
    with serving(capacity=1, idle=0.2) as server, http(server) as client:
        client.post("/seed_session", json=row())
        waiting = time.monotonic()
        while server.episodes.places.load and time.monotonic() - waiting < 20:
            time.sleep(0.02)
        assert client.post("/send_text", json={"text": "add"}).status_code == 404


def test_metrics_are_means_over_all_episodes_and_by_task() -> None:
    rewards: Sequence[tuple[int, float]] = ((1, 1.0), (0, 0.0), (0, 0.5))
    metrics = nemo.metrics_of([{"_ng_task_index": at, "reward": x, "success": x > 0.9} for at, x in rewards])
    assert metrics["key_metrics"] == {"mean/reward": 0.5, "mean/success": pytest.approx(1 / 3)}
    assert [each["mean/reward"] for each in metrics["group_level_metrics"]] == [0.25, 1.0]
    unknown = [{"reward": 0.0, "mask_sample": True}, {"reward": 1.0, "mask_sample": False}]
    assert nemo.metrics_of(unknown)["key_metrics"] == {"mean/reward": 1.0}, "a masked sample has no reward"
    odd = [{"_ng_task_index": None, "reward": x} for x in (0.5, 10**400, float("inf"), float("nan"))]
    assert nemo.metrics_of(odd)["group_level_metrics"] == [{"_ng_task_index": 0, "mean/reward": 0.5}]
    assert nemo.metrics_of([]) == {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}


def test_metrics_may_have_the_rollouts_of_a_whole_run() -> None:
    one = {"_ng_task_index": 0, "reward": 0.5, "turnwise": row()["turnwise"]}
    with serving(frame=1024) as server, http(server) as client:
        for number, status in ((100, 200), (300, 413)):
            answer = client.post("/aggregate_metrics", json={"verify_responses": [one] * number})
            assert answer.status_code == status, answer.text
        assert client.post("/verify", json={"response": "x" * 1024}).status_code == 413, "as any other request"


def test_rows_have_images_and_no_tool_that_hides_a_route() -> None:
    seen = Observation((Message("system", (TextPart("rules"),)), Message("tool", (TextPart("a"), ImagePart(b"x")))))
    system, user = nemo.row_of(ID, "d", TaskSpec("Tally"), seen, [])["responses_create_params"]["input"]
    assert system == {"type": "message", "role": "system", "content": "rules"}
    assert [part["type"] for part in user["content"]] == ["input_text", "input_image"]
    with pytest.raises(UsageError, match="uses the path /verify itself"):
        nemo.row_of(ID, "d", TaskSpec("Tally"), seen, [{"name": "verify"}])


CLIENT = """
import asyncio, json, sys, uvicorn
from fastapi import FastAPI, Request
from omegaconf import OmegaConf
from nemo_gym.config_types import BaseServerConfig, ModelServerRef, ResourcesServerRef
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient, set_global_aiohttp_client
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
host, port, *files = sys.argv[1:]
rows = {name: [json.loads(line) for line in open(file)] for name, file in zip(("simple", "gymnasium"), files)}

def message(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": content}

model = FastAPI()

@model.post("/v1/responses")
async def respond(request: Request):
    body = await request.json()
    turns = sum(item.get("role") == "assistant" or item.get("type") == "function_call" for item in body["input"])
    word = "boom" if body["temperature"] == 0.5 else "add" if turns < 3 else "end"
    if body.get("tools"):
        assert body["tools"][0]["name"] == "send_text", body["tools"]
        call = {"type": "function_call", "name": "send_text", "call_id": f"c{turns}"}
        output = call | {"arguments": json.dumps({"text": word})} if turns < 4 else message("done")
    else:
        output = message(word)
    made = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [output]}
    return made | {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}

async def serve(app):
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done(), await task
        await asyncio.sleep(0.01)
    return server.servers[0].sockets[0].getsockname()[1]

async def main():
    places = {"env": (host, int(port)), "model": ("127.0.0.1", await serve(model))}
    config = {name: {"type": {"name": {"host": at, "port": to}}} for name, (at, to) in places.items()}
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create(config)
    )
    set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    common = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
    common["model_server"] = ModelServerRef(type="responses_api_models", name="model")
    common["resources_server"] = ResourcesServerRef(type="resources_servers", name="env")
    agents = {
        "simple": SimpleAgent(config=SimpleAgentConfig(name="simple", **common), server_client=client),
        "gymnasium": GymnasiumAgent(config=GymnasiumAgentConfig(name="gymnasium", **common), server_client=client),
    }
    for name, agent in agents.items():
        at = {"host": "127.0.0.1", "port": await serve(agent.setup_webserver())}
        client.global_config_dict[name] = {"type": {"name": at}}

    async def run(name, row, temperature=1.0):
        row["responses_create_params"]["temperature"] = temperature
        answer = await client.post(name, "/run", json=row)
        return answer.status, json.loads(await answer.read()) if answer.status == 200 else None

    for name, listed in rows.items():
        played = await asyncio.gather(*(run(name, row) for row in listed))
        assert {status for status, _ in played} == {200}, played
        results = [result for _, result in played]
        assert {each["reward"] for each in results} == {1.75}, results
        assert {each["terminated"] for each in results} == {True}, results
        texts = json.dumps(results[0]["response"]["output"])
        assert "total 1" in texts and "total 3" in texts, texts
        status, failed = await run(name, listed[0], 0.5)
        assert status == 500, failed
        metrics = await client.post(name, "/aggregate_metrics", json={"verify_responses": [
            {"_ng_task_index": index, "reward": each["reward"]} for index, each in enumerate(results)]})
        assert json.loads(await metrics.read())["key_metrics"] == {"mean/reward": 1.75}

asyncio.run(asyncio.wait_for(main(), 300))
print("played")
"""


@pytest.mark.shift
@pytest.mark.skipif(
    "NEMO_PYTHON" not in os.environ, reason="NOT TESTED with NeMo Gym's own agents: see the head of this file"
)
def test_nemo_gyms_own_agents_play(tmp_path: Path) -> None:
    with serving(capacity=3) as server:
        files = []
        for agent in Agent:
            files.append(str(tmp_path / f"{agent}.jsonl"))
            export_nemo(ID, out=Path(files[-1]), n=8, split="train", level="", seed=0, agent=agent)
        _, _, port = server.address.rpartition(":")
        command = [os.environ["NEMO_PYTHON"], "-c", CLIENT, f"nemo:{TOKEN}@127.0.0.1", port, *files]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert ran.returncode == 0, ran.stderr + ran.stdout
        assert ran.stdout.splitlines()[-1] == "played"


MCP = """
import asyncio, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main(url, header, token):
    async with streamablehttp_client(url, headers={header: token}) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            assert names == ["send_text"], names
            for word, total in (("add", 1), ("add", 2), ("end", 2)):
                answer = await session.call_tool("send_text", {"text": word})
                assert (answer.isError, answer.content[0].text) == (False, f"total {total}"), answer
            late = await session.call_tool("send_text", {"text": "add"})
            assert late.isError and "has finished" in late.content[0].text, late

asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 60))
print("called")
"""


@pytest.mark.shift
@pytest.mark.skipif("NEMO_PYTHON" not in os.environ, reason="NOT TESTED with the MCP client of NeMo Gym's agents")
def test_the_mcp_client_of_nemo_gyms_agents_calls_tools(server: Any, client: httpx.Client) -> None:
    access = client.post("/seed_session", json=row()).json()["mcp"]
    (header,) = access["headers"].items()
    url = server.address.replace("ws://", "http://", 1) + access["url_path"]
    command = [os.environ["NEMO_PYTHON"], "-c", MCP, url, *header]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1:]) == (0, ["called"]), ran.stderr
    assert verify(client).json()["reward"] == 1.5


REVERIFY = """
import asyncio, json, sys
from omegaconf import OmegaConf
from nemo_gym import rollout_reverification as gym
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient, set_global_aiohttp_client
host, port, inputs, rollouts, out = sys.argv[1:]
config = {"env": {"resources_servers": {"turnwise": {"host": host, "port": int(port)}}}}
client = ServerClient(
    head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create(config)
)
gym.setup_server_client = lambda *_: client

async def main():
    set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    files = {"materialized_inputs_jsonl_fpath": inputs, "rollouts_jsonl_fpath": rollouts, "output_jsonl_fpath": out}
    results = await gym.RolloutReverificationHelper().run_from_config(gym.RolloutReverificationConfig(**files))
    print(json.dumps([[each["reward"], each.get("mask_sample", False)] for each in results]))

asyncio.run(asyncio.wait_for(main(), 200))
"""


@pytest.mark.shift
@pytest.mark.skipif("NEMO_PYTHON" not in os.environ, reason="NOT TESTED with NeMo Gym's own reverification")
def test_nemo_gyms_own_reverification(server: Any, client: httpx.Client, tmp_path: Path) -> None:
    calls, _ = by_calls(client, ("add", "end"), "done")
    steps, _ = by_steps(client, 4, ID, [message("add")], [message("end")])
    other = [each | ({"output": "total 9"} if "output" in each else {}) for each in calls]
    lines = [(offered(row()), calls), (row(), steps), (offered(row()), other)]
    keys = [{"_ng_task_index": at, "_ng_rollout_index": 0, "agent_ref": {"name": "any"}} for at in range(3)]
    for name, more in (("inputs", {}), ("rollouts", {"reward": 9.0})):
        written = [
            stored | key | more | ({"response": response(*output)} if more else {})
            for (stored, output), key in zip(lines, keys, strict=True)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in written))
    _, _, port = server.address.rpartition(":")
    files = [str(tmp_path / f"{name}.jsonl") for name in ("inputs", "rollouts", "out")]
    command = [os.environ["NEMO_PYTHON"], "-c", REVERIFY, f"nemo:{TOKEN}@127.0.0.1", port, *files]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    if "cannot import name 'rollout_reverification'" in ran.stderr:
        pytest.skip("this release of NeMo Gym verifies nothing again")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert json.loads(ran.stdout.splitlines()[-1]) == [[1.25, False], [1.25, False], [0.0, True]]
    (metrics,) = json.loads((tmp_path / "out_aggregate_metrics.json").read_text())
    assert metrics["key_metrics"]["mean/reward"] == 1.25, "a masked sample counts nowhere"


CHECK = """
import sys, httpx, fastapi.testclient
fastapi.testclient.TestClient = lambda app, **_: httpx.Client(base_url=sys.argv[1], trust_env=False)
from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
from nemo_gym.testing.session_conformance import check_resources_session_contract
ids = {"episode_id": {"rollout_id": "r"}, "task_id": {"taskset": "t", "task_id": "0"}}
task = {"turnwise": {"split": "train", "index": 1}}
seed = ResourcesSeedSessionRequest(resources_session_id="one", **ids, task_data=task)
check_resources_session_contract(None, seed, keeps_state=True)
print("conforms")
"""


@pytest.mark.shift
@pytest.mark.skipif("NEMO_PYTHON" not in os.environ, reason="NOT TESTED with NeMo Gym's own check of sessions")
def test_sessions_pass_nemo_gyms_own_check(server: Any, client: httpx.Client) -> None:
    url = server.address.replace("ws://", f"http://nemo:{TOKEN}@", 1)
    command = [os.environ["NEMO_PYTHON"], "-c", CHECK, url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    if "No module named 'nemo_gym.testing'" in ran.stderr or "cannot import name 'Resources" in ran.stderr:
        pytest.skip("this release of NeMo Gym has no such check")
    assert (ran.returncode, ran.stdout.splitlines()[-1:]) == (0, ["conforms"]), ran.stderr
