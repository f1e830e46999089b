"""The Open Reward Standard on the same address: its shapes, its errors, and its own client where that is installed.

::

    python -m venv v && v/bin/pip install openreward==0.1.167
    ORS_PYTHON=v/bin/python pytest --shift all tests/service/test_ors.py
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import turnwise as tw
from turnwise.envs.messages import Action
from turnwise.errors import RequestError
from turnwise.service.environments import ors, ors_routes, task_lists
from turnwise.service.environments.access import Access
from turnwise.service.environments.catalog import Catalog
from turnwise.service.environments.settings import ServeConfig
from turnwise.service.environments.streams import Streams
from turnwise.tasks.spec import TaskSpec

from .environment_servers import APPS, ID, OTHER, TOKEN, Raw, Tally, serving


def http(server: Any, token: str = TOKEN) -> httpx.Client:
    base = server.address.replace("ws", "http", 1)
    return httpx.Client(base_url=base, headers={"X-API-Key": token}, trust_env=False, timeout=20)


@pytest.fixture
def client(server: Any) -> Iterator[httpx.Client]:
    with http(server) as client:
        yield client
    assert server.episodes.places.load == 0, "each test ends its sessions"


def events(answer: httpx.Response) -> list[tuple[str, str]]:
    """The server-sent events of an answer, read as the client reads them."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events_in(answer.text)


def events_in(text: str) -> list[tuple[str, str]]:
    found, kind, data = [], "", ""
    for line in text.split("\r\n"):
        if line.startswith("event:"):
            kind = line.split(":", 1)[1].lstrip()
        elif line.startswith("data:"):
            data = line.split(":", 1)[1].lstrip()
        elif not line and kind:
            found.append((kind, data))
            kind, data = "", ""
    return found


class Session:
    """One session: ``create_session``, ``create``, calls, ``delete``."""

    def __init__(self, client: httpx.Client, **task: Any) -> None:
        self.client = client
        (_, self.sid), end = events(client.post("/create_session", json={}))
        assert end == ("end", "")
        self.headers = {"X-Session-ID": self.sid}
        self.created = self.post("/create", **task)

    def __enter__(self) -> Session:
        assert self.created.json() == {"sid": self.sid}, self.created.text
        return self

    def __exit__(self, *_: object) -> None:
        assert self.post("/delete").json() == {"sid": self.sid}

    def post(self, path: str, **data: Any) -> httpx.Response:
        return self.client.post(path, json=data, headers=self.headers)

    def get(self, path: str) -> Any:
        return self.client.get(path, headers=self.headers).json()

    def call(self, name: str, task_id: str | None = None, /, **given: Any) -> Any:
        """The result of a call, or the text of its error."""
        body = {"name": name, "input": given} | ({} if task_id is None else {"task_id": task_id})
        (first, self.task_id), *rest = events(self.client.post("/call", json=body, headers=self.headers))
        assert first == "task_id" or not rest
        if not rest:
            return json.loads(self.task_id)
        assert [kind for kind, _ in rest[:-1]] == ["chunk"] * (len(rest) - 1)
        text = "".join(data for _, data in rest)
        return text if rest[-1][0] == "error" else json.loads(text)


def test_a_session_of_text(client: httpx.Client) -> None:
    with Session(client, split="train", index=4) as session:
        assert session.get("/prompt") == [{"type": "text", "text": "seed 4", "detail": None}]
        assert session.get("/messages") == [{"role": "user", "blocks": session.get("/prompt")}]
        tools = session.get("/task_tools")
        assert [tool["name"] for tool in tools["tools"]] == ["send_text"]
        assert tools["tools"][0]["input_schema"]["required"] == ["text"]
        assert (tools["terminal_tool"], tools["supports_score_group"]) == (None, False)
        assert session.post("/ping").json() == {"status": "ok"}
        step = session.call("send_text", text="add")
        metadata = {"episode_id": session.sid, "turn": 1, "terminated": False, "truncated": False}
        blocks = [{"type": "text", "text": "total 1", "detail": None}]
        output = {"blocks": blocks, "metadata": metadata, "reward": 0.25, "finished": False}
        assert step == {"ok": True, "output": output}
        last = session.call("send_text", text="end")["output"]
        assert last["finished"] is True
        assert last["metadata"] == {**metadata, "turn": 2, "terminated": True, "success": True}
        again = session.call("send_text", text="add")
        assert (again["ok"], again["reason"]) == (False, "episode_finished")


def test_tools_act_as_in_process(client: httpx.Client) -> None:
    env = tw.make(APPS)
    spec = env.tasks().spec(5, split="test_iid", level=2)
    observation, _ = env.reset(options={"task": spec})
    with Session(client, env_name=APPS, task_spec=spec.to_json()) as session:
        assert "\n".join(block["text"] for block in session.get("/prompt")) == observation.text
        names = [tool["name"] for tool in session.get(f"/{APPS}/task_tools")["tools"]]
        assert names == [*(tool.name for tool in env.tools), "send_text"]
        call = Action.of(env.oracle()).tool_calls[0]
        answer = session.call(call.name, **call.arguments)["output"]
        stepped = env.step(call)
        assert answer["blocks"][0]["text"] == stepped[0].text
        assert (answer["reward"], answer["finished"]) == (stepped[1], False)
        wrong = session.call("nothing")["output"]
        assert (wrong["metadata"]["tool_error"], wrong["metadata"]["turn"]) == (True, 2), "as in process, a turn"
        assert session.post(f"/{ID}/call", name="send_text", input={"text": "x"}).status_code == 409, (
            "another environment"
        )


FITS: dict[str, tuple[tuple[str], dict[str, str]]] = {
    ID: (("send_text",), {"text": "add"}),
    APPS: (("docs_app",), {"app": "wallet"}),
}
"""A call that fits, by environment."""
MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"txt": "hi"}, "got txt"),
    ({}, "got no arguments"),
    ({"text": 5}, "got text of type int"),
]


@pytest.mark.parametrize("env", [ID, APPS])
def test_calls_without_a_meaning_are_answered_and_flagged(client: httpx.Client, env: str) -> None:
    with Session(client, env_name=env, split="train", index=4) as session:
        for turn, (given, got) in enumerate(MALFORMED, 1):
            output = session.call("send_text", **given)["output"]
            says = f"Error: send_text takes one argument, text, which is a string; {got}."
            assert [block["text"] for block in output["blocks"]] == [says]
            assert (output["reward"], output["metadata"]["turn"], output["metadata"]["tool_error"]) == (0.0, turn, True)
        output = session.call("nonsense", text="add")["output"]
        assert "there is no tool 'nonsense'. You have: " in output["blocks"][0]["text"]
        assert (output["metadata"]["turn"], output["metadata"]["tool_error"]) == (4, True)
        assert "tool_error" not in session.call(*FITS[env][0], **FITS[env][1])["output"]["metadata"]


def test_tasks_and_splits(client: httpx.Client) -> None:
    assert client.get("/list_environments").json() == [ID, APPS]
    splits = {each["name"]: each["type"] for each in client.get(f"/{APPS}/splits").json()}
    assert (splits["train"], splits["dev"], splits["test_iid"]) == ("train", "validation", "test")
    assert client.post("/num_tasks", json={"split": "train"}).json() == {"num_tasks": 10_000}
    family = tw.make(APPS).tasks()
    path, third = f"/{APPS}/task", [spec.to_json() for spec in family.sample(4, split="dev")][3]
    assert client.post(path, json={"split": "dev", "index": 3}).json() == {"task": third, "env_name": APPS}
    part = client.post(f"/{APPS}/task_range", json={"split": "dev", "start": 2, "stop": 4}).json()
    assert (part["tasks"][1], len(part["tasks"]), part["env_name"]) == (third, 2, APPS)
    last = client.post("/task", json={"split": "train", "index": -1}).json()["task"]
    assert last["seed"] == 9_999
    assert client.post("/tasks", json={"split": "train"}).json()["tasks"][-1] == last
    seen = client.post(f"/openenv/{APPS}/reset", json={"split": "dev", "index": 3}).json()
    with Session(client, env_name=APPS, split="dev", index=3) as session:
        assert seen["observation"]["text"] == session.get("/prompt")[0]["text"], "OpenEnv's reset takes an index, too"
    ended = {"session_id": seen["metadata"]["episode_id"]}
    client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": ended})


async def test_a_long_fixed_list_comes_in_parts_each_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    family = {"name": "long", "seeded": False, "levels": [1, 2], "usual": [1, 2], "seeds": 30}
    family["templates"] = {"train": ["a", "b"]}
    served: Any = SimpleNamespace(id="test/Long-v0", description={"family": family})
    lists, draw = task_lists.TaskLists(), task_lists._drawn
    drawn: list[int] = []

    def counted(family: Any, split: str, numbers: range) -> list[bytes]:
        drawn.extend(numbers)
        return draw(family, split, numbers)

    monkeypatch.setattr(task_lists, "_drawn", counted)
    monkeypatch.setattr(task_lists, "BLOCK", 8)
    each, *others = await asyncio.gather(*(lists.between(served, "train") for _ in range(5)))
    assert (drawn, others) == ([*range(30)], [each] * 4), "at the same time, too"
    whole = [TaskSpec.from_json(json.loads(task)) for task in each]
    assert [(task.seed, task.level) for task in whole] == [(seed, 1 + seed % 2) for seed in range(30)]
    ends = (None, -31, -5, 0, 3, 8, 16, 29, 40)
    for start, stop in itertools.product(ends, ends):
        assert await lists.between(served, "train", start, stop) == each[start:stop], (start, stop)
    assert len(drawn) == 30
    monkeypatch.setattr(task_lists, "KEPT", 2)
    monkeypatch.setattr(task_lists, "MOST", 12)
    with pytest.raises(RequestError, match="at most 12 tasks, and these are 30"):
        await lists.between(served, "train")
    assert await lists.between(served, "train", -10) == each[-10:]
    with pytest.raises(RequestError, match="it has tasks 0 to 29"):
        task_lists.task_at(served, "train", 30)
    few = task_lists.TaskLists()
    for start in (0, 8, 16, 0):
        await few.between(served, "train", start, start + 1)
    assert len(few._blocks) == 2, "the blocks that a server keeps are bounded"


def test_the_deployment_chooses_the_environment(client: httpx.Client) -> None:
    def names(deployment: str) -> Any:
        answer = client.get("/tools", headers={"X-Deployment": deployment})
        return len(answer.json()["tools"]) > 1 if answer.status_code == 200 else answer.status_code

    assert [names(each) for each in (APPS, "Apps-v2", "", "turnwise/None-v0", "foo")] == [True, True, False, 404, 404]
    wrong = client.post("/tasks", json={"split": "train"}, headers={"X-Deployment": "apps-v2"})
    known = f"there is no environment 'apps-v2' here; this server has {ID}, {APPS}. Did you mean {APPS}?"
    assert (wrong.status_code, wrong.json()["detail"]) == (404, known), "no other environment in its place"


def test_the_last_part_of_an_id_is_a_name_in_every_place(client: httpx.Client) -> None:
    task = client.post("/Apps-v2/task", json={"split": "dev", "index": 0}).json()
    assert task["env_name"] == APPS
    with Session(client, env_name="Apps-v2", split="dev", index=0) as session:
        assert len(session.get("/Apps-v2/task_tools")["tools"]) > 1
    tw.register("test_twin/Tally-v0", Tally)
    twins = Catalog([ID, "test_twin/Tally-v0"], ServeConfig())
    with pytest.raises(RequestError, match="no environment 'Tally-v0' here"):
        twins.named("Tally-v0")


def test_a_server_of_one_environment_takes_any_name_without_a_slash() -> None:
    with serving() as server, http(server) as client:
        answers = [client.get("/tools", headers={"X-Deployment": name}) for name in ("foo", "turnwise/None-v0")]
        assert [answer.status_code for answer in answers] == [200, 404]


WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("/create", {}, 422, "task_spec, or by split and index"),
    ("/create", {"split": "train", "index": 1, "task_spec": {"family": "Tally"}}, 422, "task_spec, or"),
    ("/create", {"split": "moon", "index": 1}, 400, "no split 'moon'"),
    ("/create", {"split": "train", "index": 10_000}, 400, "no task 10000"),
    ("/create", {"split": "train", "index": True}, 422, "index must be of type int"),
    ("/create", {"split": "train", "index": 1, "env_name": "no/Such-v0"}, 404, "no environment 'no/Such-v0'"),
    ("/create", {"split": "train", "index": 1, "toolset_name": "codex"}, 400, "no toolsets"),
    ("/create", {"task_spec": {"family": "Other"}}, 400, "names family 'Other'"),
    ("/create", {"task_spec": [1]}, 422, "must be of type dict"),
    ("/create_session", {"env": {"A": "b"}}, 400, "env_overrides"),
    ("/no/Such-v0/tasks", {"split": "train"}, 404, "no environment"),
    ("/tasks", {"split": ["train"]}, 422, "must be of type str"),
    ("/task_range", {"split": "train", "start": "a"}, 422, "must be of type int"),
    ("/call", {"name": "send_text", "input": {}}, 404, "no such episode"),
    ("/call", {"name": "send_text", "input": "add"}, 422, "must be of type dict"),
    ("/call", {"input": {}}, 422, "name must be"),
    ("/ping", {}, 404, "no such episode"),
]


@pytest.mark.parametrize(("path", "body", "status", "says"), WRONG)
def test_what_is_wrong_is_answered_in_one_line(
    client: httpx.Client, path: str, body: dict[str, Any], status: int, says: str
) -> None:
    answer = client.post(path, json=body, headers={"X-Session-ID": os.urandom(16).hex()})
    assert (answer.status_code, says in answer.json()["detail"]) == (status, True), answer.text
    assert "\n" not in answer.json()["detail"]


def test_bodies_sessions_and_tokens_are_checked(server: Any, client: httpx.Client) -> None:
    assert client.post("/call", content=b"{").status_code == 422
    assert client.post("/call", content=b"[" * 5000).status_code == 422
    assert client.post("/call", json={"name": "x" * (server.config.frame + 1)}).status_code == 413
    assert client.post("/create", json={"split": "train", "index": 1}).status_code == 400, "no X-Session-ID"
    short = client.post("/create", json={"split": "train", "index": 1}, headers={"X-Session-ID": "mine"})
    assert (short.status_code, "32 random hex digits" in short.text) == (422, True)
    for name, token in (
        ("X-API-Key", b"w" * 20),
        ("X-API-Key", b""),
        ("X-API-Key", b"\xe9"),
        ("Authorization", b"Bearer w"),
    ):
        refused = client.post("/create_session", json={}, headers=httpx.Headers([(name.encode(), token)]))
        assert refused.status_code == 401, (name, token)
    bearer = {"Authorization": f"Bearer {TOKEN}", "X-API-Key": ""}
    assert client.get("/version", headers=bearer).json()["build_sha"] is None


def test_another_client_reaches_no_session(server: Any, client: httpx.Client) -> None:
    with Session(client, split="train", index=1) as session, http(server, OTHER) as stranger:
        session.call("send_text", text="add")
        for path, body in (("/call", {"name": "send_text", "input": {"text": "add"}}), ("/ping", {})):
            assert stranger.post(path, json=body, headers=session.headers).status_code == 404
        for path in ("/prompt", "/messages", "/task_tools"):
            assert stranger.get(path, headers=session.headers).status_code == 404
        taken = stranger.post("/create", json={"split": "train", "index": 1}, headers=session.headers)
        assert taken.status_code == 409
        stranger.post("/delete", headers=session.headers)
        assert session.call("send_text", text="add")["output"]["blocks"][0]["text"] == "total 2", (
            "still open, no step lost"
        )


def test_a_lost_result_is_asked_for_again_and_acts_once(client: httpx.Client) -> None:
    with Session(client, split="train", index=2) as session:
        assert session.post("/create", split="train", index=2).json() == {"sid": session.sid}
        first = session.call("send_text", text="add")
        id = session.task_id
        assert session.call("send_text", id, text="add") == first
        assert session.call("send_text", text="add")["output"]["blocks"][0]["text"] == "total 2"
        for task_id in (id, "2", "-1", "x", "9" * 50):
            refused = session.post("/call", name="send_text", input={"text": "add"}, task_id=task_id)
            assert refused.status_code == 409, "neither an old result nor a turn that nobody took"
        other = session.post("/call", name="send_text", input={"text": "end"}, task_id=session.task_id)
        assert (other.status_code, "another action" in other.text) == (409, True)
        assert session.call("send_text", text="add")["output"]["metadata"]["turn"] == 3


@pytest.mark.parametrize("word", ["boom", "sandbox", "usage"])
def test_a_failure_is_an_error_without_secrets_and_no_reward(client: httpx.Client, word: str) -> None:
    with Session(client, split="train", index=2) as session:
        said = session.call("send_text", text=word)
        assert isinstance(said, str)
        assert "secret" not in said
        assert "log says why" in said


def test_long_results_arrive_whole(client: httpx.Client) -> None:
    with Session(client, split="train", index=1) as session:
        text = session.call("send_text", text="large 200000")["output"]["blocks"][0]["text"]
        assert text == "x" * 200_000
    assert ors.say_of([{"name": "send_text"}]) == "send_text_", "a tool of the environment keeps its name"
    for spaces in range(4090, 4100):  # the client strips spaces at the start of an event
        result = {"text": "\\" * (spaces % 7) + " " * spaces * 3 + "é\n"}
        parts = [line.partition(": ")[2] for one in ors.events_of(result) for line in one.split("\r\n")[1:2]]
        assert json.loads("".join(part.lstrip() for part in parts)) == result


FULL = "the server is full: 3 of 3 places are in use"


def test_a_full_server_asks_to_come_again(server: Any, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ors_routes, "WAIT", 0.05)
    sessions = [Session(client, split="train", index=index).__enter__() for index in range(3)]
    late = Session(client, split="train", index=9)
    assert (late.created.status_code, late.created.json()["detail"]) == (503, FULL)
    sessions[0].post("/delete")
    assert late.post("/create", split="train", index=9).status_code == 200, "the same session may try again"
    for session in (late, *sessions):
        session.post("/delete_session")


def test_a_session_without_pings_ends() -> None:
    with serving(capacity=1, reattach=0.2) as server, http(server) as client:
        session = Session(client, split="train", index=1).__enter__()
        waiting = time.monotonic()
        while server.episodes.places.load and time.monotonic() - waiting < 20:
            time.sleep(0.02)
        assert session.post("/ping").status_code == 404


def test_calls_of_one_session_are_bounded_and_each_takes_its_turn() -> None:
    with serving(capacity=1, pending=4) as server, http(server) as client, ThreadPoolExecutor(8) as beside:
        session, body = Session(client, split="train", index=1), {"name": "send_text", "input": {"text": "wait"}}
        Tally.released.clear()
        calls = [beside.submit(session.post, "/call", **body) for _ in range(8)]
        try:
            while sum(each.done() for each in calls) < 4:
                time.sleep(0.01)
        finally:
            Tally.released.set()
        answers = [each.result(20) for each in calls]
        refused = [each for each in answers if each.status_code != 200]
        assert [each.status_code for each in refused] == [429] * 4
        turns = {events(each)[0] for each in answers if each.status_code == 200}
        assert turns == {("task_id", str(turn)) for turn in range(4)}


def test_resumed_calls_are_counted_and_leave_streams_for_other_clients() -> None:
    with serving(capacity=3, pending=2, connections=4) as server, http(server) as client, http(server, OTHER) as other:
        one, second, theirs = (Session(each, split="train", index=1) for each in (client, client, other))
        Tally.released.clear()
        body = {"name": "send_text", "input": {"text": "wait"}}
        first = client.build_request("POST", "/call", json=body, headers=one.headers)
        resumed = client.build_request("POST", "/call", json={**body, "task_id": "0"}, headers=one.headers)
        open_streams = [client.send(each, stream=True) for each in (first, resumed)]
        assert [each.status_code for each in open_streams] == [200, 200]
        assert client.send(resumed).status_code == 429, "a resumption counts, too"
        refused = second.post("/call", name="send_text", input={"text": "add"})
        assert (refused.status_code, "too many connections" in refused.text) == (503, True), "this client has its share"
        assert theirs.call("send_text", text="add")["output"]["reward"] == 0.25
        Tally.released.set()
        assert [events_in(each.read().decode())[-1][0] for each in open_streams] == ["end", "end"]
        assert second.call("send_text", text="add")["output"]["reward"] == 0.25, "ended streams leave room"


def test_bytes_of_calls_that_wait_in_one_session_are_bounded() -> None:
    with serving(capacity=1, frame=2048) as server, http(server) as client:
        session = Session(client, split="train", index=1)

        def stream(text: str) -> httpx.Response:
            body = {"name": "send_text", "input": {"text": text}}
            return client.send(client.build_request("POST", "/call", json=body, headers=session.headers), stream=True)

        for round in range(2):
            Tally.released.clear()
            streams = [stream("wait"), *(stream("x" * 1900) for _ in range(4))]  # 8,192 bytes may wait
            refused = stream("x" * 1900)
            assert refused.status_code == 429
            assert "too many bytes" in refused.read().decode()
            Tally.released.set()
            turns = [events_in(each.read().decode())[0][1] for each in streams]
            assert turns == [str(5 * round + turn) for turn in range(5)], "what fits has its turn, and then leaves room"
        session.post("/delete")


def test_the_operator_takes_no_share_of_a_single_client() -> None:
    key, token = "o" * 16, "t" * 16
    assert [Access(tokens, key).clients for tokens in ([], [token], [token, "u" * 16])] == [1, 1, 2]
    assert greedy(Streams(256, 300, clients=1), "t") == 256


def greedy(streams: Streams, client: str) -> int:
    """The number of streams that a client gets until it is refused."""
    for taken in itertools.count():
        try:
            streams.check(client, f"{client} {taken}")
        except RequestError:
            return taken
        streams.take(client, f"{client} {taken}")
    raise AssertionError


@pytest.mark.parametrize(("most", "clients", "share"), [(256, 10, 11), (256, 100, 1), (4, 2, 1), (3, 9, 0)])
def test_greedy_clients_leave_each_other_its_share(most: int, clients: int, share: int) -> None:
    streams = Streams(most, most, clients=clients)
    taken = [greedy(streams, name) for name in (*map(str, range(clients)), "operator")]
    assert (min(taken), sum(taken) <= most) == (share, True), "a server of more clients than streams has no shares"
    assert taken[0] < most, "the first of several clients leaves some"
    assert taken == sorted(taken, reverse=True)
    assert greedy(streams, "operator") == 0, "it has its share"


def test_arguments_nested_too_deeply_are_a_turn(client: httpx.Client) -> None:
    with Session(client, env_name=APPS, split="dev", index=0) as session:
        for turn, depth in enumerate((150, 900), 1):
            nested: list[Any] = []
            for _ in range(depth):
                nested = [nested]
            output = session.call("docs_app", app=nested)["output"]
            assert "nested too deeply: at most 100" in output["blocks"][0]["text"]
            assert output["metadata"]["turn"] == turn


def test_a_fork_of_our_own_protocol_is_no_session(server: Any, client: httpx.Client) -> None:
    with Raw(server) as raw:
        episode, fork = raw.reset(), os.urandom(16).hex()
        assert raw.ask("fork", episode, **{"as": fork}) == {}
        headers = {"X-Session-ID": fork}
        call = client.post("/call", json={"name": "send_text", "input": {"text": "add"}}, headers=headers)
        for answer in (call, *(client.get(path, headers=headers) for path in ("/prompt", "/messages", "/task_tools"))):
            assert (answer.status_code, "ORS has no forks" in answer.json()["detail"]) == (409, True)
        for each in (episode, fork):
            raw.ask("close", each)


def test_a_slow_call_pings_its_client(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ors_routes, "PING", 0.01)
    Tally.released.clear()
    with Session(client, split="train", index=1) as session:
        body = {"name": "send_text", "input": {"text": "wait"}}
        with client.stream("POST", "/call", json=body, headers=session.headers) as stream:
            lines = stream.iter_lines()
            assert ": ping" in (line for line in lines)
            Tally.released.set()
            assert [line for line in lines if line.startswith("event:")] == ["event: end"]


def test_a_call_behind_the_one_that_ends_the_episode_is_refused_and_fails_nothing() -> None:
    with serving(capacity=1) as server, http(server) as client:
        session = Session(client, split="train", index=1).__enter__()
        Tally.released.clear()
        calls = [
            client.build_request(
                "POST", "/call", json={"name": "send_text", "input": {"text": text}}, headers=session.headers
            )
            for text in ("wait", "end", "add")
        ]
        streams = [client.send(each, stream=True) for each in calls]  # each returns once its call has its turn
        Tally.released.set()
        _, last, late = (events_in(each.read().decode()) for each in streams)
        assert json.loads(last[-1][1])["output"]["metadata"]["success"] is True
        assert (late[-1][0], json.loads(late[-1][1])["reason"]) == ("end", "episode_finished")
        assert not server.episodes._failed, "the environment can be used again"
        assert server.episodes.places.load == 0


CLIENT = """
import asyncio, sys
from openreward.api.environments.client import AsyncEnvironmentsAPI
from openreward.api.errors import SessionTerminatedError, ToolCallError, ToolFailed
url, token, sessions = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def play(env, task):
    async with env.session(task=task) as session:
        blocks = await session.get_prompt()
        assert blocks[0].text == f"seed {task.task_spec['seed']}", blocks
        assert [tool.name for tool in await session.list_tools()] == ["send_text"]
        messages = await session.get_messages(format="openai")
        assert messages == [{"role": "user", "content": blocks[0].text}], messages
        assert not await session.is_assistant_message_final()
        total = 0.0
        for turn in range(10):
            output = await session.call_tool("send_text", {"text": "add"})
            assert output.blocks[0].text == f"total {turn + 1}", output
            total += output.reward
        long = await session.call_tool("send_text", {"text": "large 300000"})
        assert long.blocks[0].text == "x" * 300_000
        output = await session.call_tool("send_text", {"text": "end"})
        try:
            await session.call_tool("send_text", {"text": "add"})
        except ToolCallError as error:
            return total, output.finished, output.metadata["success"], error.reason

async def fail(env):
    async with env.session(split="train", index=1) as session:
        try:
            await session.call_tool("send_text", {"text": "boom"})
        except ToolFailed as error:
            assert "secret" not in str(error), error
        try:
            await session.call_tool("send_text", {"text": "add"})
        except SessionTerminatedError:
            return True

async def main():
    async with AsyncEnvironmentsAPI(url, token) as api:
        env = api.get("test/Tally-v0")
        assert await env.list_splits() == ["train", "dev", "test_iid"]
        assert await env.num_tasks("train") == 10_000
        tasks = await env.get_task_range("train", 0, sessions)
        assert tasks[1] == await env.get_task("train", 1)
        assert set(await asyncio.gather(*(play(env, task) for task in tasks))) == {
            (2.5, True, True, "episode_finished")
        }
        assert await fail(env)
        apps = api.get("any", variant="turnwise/Apps-v2")
        async with apps.session(split="dev", index=0) as session:
            tools = await session.list_tools(format="openai")
            assert len(tools) > 3 and all(tool["parameters"] for tool in tools)
            assert (await session.call_tool("docs_app", {"app": "wallet"})).blocks[0].text

asyncio.run(asyncio.wait_for(main(), 100))
print("played")
"""


@pytest.mark.shift
@pytest.mark.skipif(
    "ORS_PYTHON" not in os.environ, reason="NOT TESTED with OpenReward's own client: see the head of this file"
)
@pytest.mark.parametrize("sessions", [4, 64])
def test_openrewards_own_client_plays(sessions: int) -> None:
    with serving([ID, APPS], capacity=sessions + 1) as server:
        url = server.address.replace("ws", "http", 1)
        command = [os.environ["ORS_PYTHON"], "-c", CLIENT, url, TOKEN, str(sessions)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.strip() == "played"
        assert server.episodes.places.load == 0, "the client ends each of its sessions"
