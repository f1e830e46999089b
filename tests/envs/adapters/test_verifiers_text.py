"""Tasksets of verifiers as environments: the protocol with their process, mistakes, and the real verifiers.

::

    python3.12 -m venv v && v/bin/pip install verifiers==0.4.0 uv
    VERIFIERS_PYTHON=v/bin/python pytest tests/envs/adapters/test_verifiers_text.py
"""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.adapters import verifiers_process
from turnwise.envs.adapters.verifiers_child import Rollout
from turnwise.envs.base import TurnEnv
from turnwise.envs.messages import ImagePart
from turnwise.errors import EnvironmentDiedError, EnvironmentFailedError, TaskError, UsageError

TASKSETS = Path(__file__).with_name("verifiers_tasksets")
REAL = pytest.mark.skipif("VERIFIERS_PYTHON" not in os.environ, reason="NOT TESTED with verifiers' tasksets; see above")
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
ASKED = {"messages": [{"role": "system", "content": "Play."}, {"role": "user", "content": "Go."}], "tools": [TOOL]}
MORE = {"messages": [{"role": "tool", "content": "A door.", "tool_call_id": "call_1_0", "name": "look"}]}
OVER = {"reward": 0.5, "rewards": {"won": 0.5}, "metrics": {"n": 2.0}, "stop": "agent_completed", "limit": False}
FAKE = """
import json, os, sys, time
events = iter(json.loads({events!r}))
described = {{"count": 3, "digest": "d", "tools": [], "max_turns": 4, "own_limit": {own!r}}}
for line in sys.stdin:
    number, verb, arguments = json.loads(line)
    if verb == "open":
        value = described
        while {opening!r} and not os.path.exists({opening!r}):
            time.sleep(0.01)
    elif verb == "end":
        value = None
    else:
        print(json.dumps(arguments), file=open({log!r}, "a"))
        value = next(events)
    if value == "die":
        sys.exit("the last words")
    if value == "no JSON":
        print("a taskset writes here", flush=True)
    if value in ("no JSON", "nothing"):
        continue
    print(json.dumps([number, {{"value": value}}]), flush=True)
"""


def prepare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[Any], own: bool = False, opening: str = ""
) -> dict[str, Any]:
    """Prepare a process that answers with these events, and opens when a file exists; return its settings."""
    program = tmp_path / "fake.py"
    log = str(tmp_path / "log")
    program.write_text(FAKE.format(events=json.dumps(events), own=own, log=log, opening=opening))
    monkeypatch.setattr(verifiers_process, "PROGRAM", program)
    return {"python": sys.executable, "here": str(tmp_path)}


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[Any], own: bool = False) -> TurnEnv:
    """Return an environment whose process answers with prepared events."""
    return tw.make("verifiers/fake-v0", **prepare(tmp_path, monkeypatch, events, own))


def test_each_request_of_the_harness_is_an_observation_of_its_new_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = fake(tmp_path, monkeypatch, [ASKED, {**MORE, "tools": [TOOL]}, OVER])
    observation, _ = env.reset(seed=2)
    assert [(m.role, m.text) for m in observation.messages] == [("system", "Play."), ("user", "Go.")]
    assert [tool.name for tool in env.tools] == ["look"]
    observation, reward, terminated, truncated, _ = env.step(tw.ToolCall("look", {}))
    (answer,) = observation.messages
    assert (answer.role, answer.text, answer.tool_call_id, reward) == ("tool", "A door.", "call_1_0", 0.0)
    _, reward, terminated, truncated, info = env.step("Done.")
    assert (reward, terminated, truncated, info["success"]) == (0.5, True, False, False)
    assert info["verifiers"] == {"rewards": {"won": 0.5}, "metrics": {"n": 2.0}, "stop": "agent_completed"}
    started, called, answered = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert started["task"] == 2
    assert called["message"]["tool_calls"] == [
        {"id": "call_1_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ]
    assert answered["message"] == {"role": "assistant", "content": "Done."}
    with pytest.raises(TaskError, match="has no split 'dev'"):
        env.tasks().spec(0, split="dev")


@pytest.mark.parametrize(
    ("stop", "own", "truncated"),
    [("max_turns", True, False), ("max_turns", False, True), ("agent_timeout", True, True), ("won", True, False)],
)
def test_a_limit_in_verifiers_config_is_the_tasks_own(
    stop: str, own: bool, truncated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = {**OVER, "stop": stop, "limit": stop != "won"}
    env = fake(tmp_path, monkeypatch, [ASKED, over], own)
    env.reset(seed=0)
    _, _, terminated, cut, info = env.step("x")
    assert (terminated, cut) == (not truncated, truncated)
    assert info.get("out_of_turns", False) == (stop == "max_turns")


def test_what_fails_is_an_error_and_not_a_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]}
    sound = {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}
    events = [ASKED, {"failed": "the rollout failed: TaskError: no"}, ASKED, {"messages": [sound], "tools": [TOOL]}]
    events += [{"messages": [image], "tools": []}, {"messages": [], "tools": [TOOL]}, ASKED, "die"]
    env = fake(tmp_path, monkeypatch, events)
    env.reset(seed=0)
    with pytest.raises(EnvironmentFailedError, match="the rollout failed: TaskError: no"):
        env.step("x")
    env.reset(seed=0)
    with pytest.raises(EnvironmentFailedError, match="input_audio"):
        env.step("x")
    assert env.reset(seed=0)[0].messages[0].parts == (ImagePart(b"ABC"),)
    with pytest.raises(EnvironmentFailedError, match="changed its tools"):
        env.step("x")
    env.reset(seed=0)
    with pytest.raises(EnvironmentDiedError, match="exit code 1, the last words"):
        env.step("x")
    assert env.reset(seed=0)[0].text == "Play.\nGo.", "the next reset starts a process again"


def test_a_harness_that_rewrites_the_conversation_is_refused() -> None:
    async def play(second: list[dict[str, Any]]) -> dict[str, Any]:
        rollout, first = Rollout(), [{"role": "user", "content": "Go."}]
        asking = asyncio.create_task(rollout.asked({"messages": first}))
        await rollout.events.get()
        rollout.answer({"role": "assistant", "content": "Yes."})
        parts = [{"type": "text", "text": "Go."}]
        await asking
        again = asyncio.create_task(rollout.asked({"messages": [{"role": "user", "content": parts}, *second]}))
        event = await rollout.events.get()
        rollout.answer({"role": "assistant", "content": ""})
        await asyncio.gather(again, return_exceptions=True)
        return event

    reply: dict[str, Any] = {"role": "assistant", "content": "Yes.", "refusal": None}
    next_one: dict[str, Any] = {"role": "user", "content": "And?"}
    assert asyncio.run(play([reply, next_one])) == {"messages": [next_one], "tools": []}
    for second in ([next_one], [{**reply, "content": "No."}, next_one]):
        assert "rewrote the conversation" in asyncio.run(play(second))["failed"]


def test_mistakes_are_answered_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERIFIERS_PYTHON", raising=False)
    old = tmp_path / "verifiers"
    old.mkdir()
    (old / "__init__.py").write_text("__version__ = '0.3.1'")
    (old / "v1.py").write_text("")
    (tmp_path / "empty.toml").write_text("model = 'm'")

    def refused(**kwargs: Any) -> str:
        with pytest.raises(UsageError) as error:
            tw.make("verifiers/sums-v0", **kwargs)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "needs verifiers in a virtual environment of its own" in refused()
    assert "there is no interpreter nowhere/python" in refused(python="nowhere/python")
    assert f"there is no verifiers 0.4 in {sys.executable}" in refused(python=sys.executable)
    assert "count is 0" in refused(python=sys.executable, count=0)
    assert "max_turns must be an integer of at least 1; got 0" in refused(python=sys.executable, max_turns=0)
    assert "has no table [env]" in refused(python=sys.executable, config=tmp_path / "empty.toml")
    assert "cannot read the config" in refused(python=sys.executable, config=tmp_path / "none.toml")
    assert "only settings that JSON has" in refused(python=sys.executable, rows=object())
    monkeypatch.setenv("PYTHONPATH", "/of/another/python")
    assert "has verifiers 0.3.1; install verifiers==0.4.0" in refused(python=sys.executable, path=tmp_path)


@REAL
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tw_sums", "tw_guess", "tw_lookup"])
def test_a_taskset_scores_as_vf_eval_scores_the_same_replies(name: str, tmp_path: Path) -> None:
    env = tw.make(f"verifiers/{name}-v0", path=TASKSETS)
    played, replies = [], {}
    for seed in range(SCORED):
        first = env.reset(seed=seed)[0]
        assert env.reset(seed=seed)[0] == first, "the same seed begins with the same observation"
        over, script = False, iter(SCRIPTS[name](seed))
        rewards, made = 0.0, []
        while not over:
            made.append(next(script))
            _, reward, terminated, truncated, info = env.step(made[-1])
            rewards, over = rewards + reward, terminated or truncated
        replies[(name, seed) if name == "tw_guess" else first.messages[-1].text] = made
        played.append((rewards, info["verifiers"]["stop"], len(made)))
    env.close()
    scored = evaluated(name, replies, tmp_path)
    assert [each[0] for each in played] == [each[0] for each in scored]
    assert played == scored


@REAL
@pytest.mark.slow
def test_the_real_verifiers_refuses_in_one_line(tmp_path: Path) -> None:
    shell = {"agent": {"harness": {"id": "bash"}}}
    cases: dict[str, dict[str, Any]] = {
        "taskset 'absent' not found": {"name": "absent"},
        "without a sandbox: set agent.runtime.type": {"name": "tw_sums", "config": shell},
        "the roles assistant, user, and Turnwise plays one": {"name": "tw_sums", "config": {"id": "user-sim"}},
        "rows": {"name": "tw_sums", "rows": 3},
    }
    for message, case in cases.items():
        name = case.pop("name")
        with pytest.raises(UsageError, match=message) as error:
            tw.make(f"verifiers/{name}-v0", path=TASKSETS, **case)
        assert "\n" not in str(error.value)


SCORED = 2
SCRIPTS: dict[str, Callable[[int], list[Any]]] = {
    "tw_sums": lambda seed: [str(seed * 2) if seed == 0 else "17"],
    "tw_guess": lambda seed: [["3", "what?", "0"], ["3", "9", "8", "5"]][seed],
    "tw_lookup": lambda seed: [
        [tw.ToolCall("facts_lookup", {"name": "ada"}), "the first program"],
        [tw.ToolCall("facts_lookup", {"name": "nobody"}), tw.ToolCall("no_such", {}), "the first program"],
    ][seed],
}


def evaluated(name: str, replies: dict[Any, list[Any]], folder: Path) -> list[tuple[float, str, int]]:
    """Run verifiers' own command with a model that gives these replies; return reward, stop and turns by task."""
    python = Path(os.environ["VERIFIERS_PYTHON"]).absolute()
    role = "player" if name == "tw_guess" else "agent"
    with model(replies) as url:
        command = [str(python.with_name("vf-eval")), name, "--model", "any", "-n", str(SCORED), "--no-push"]
        command += ["--no-rich", "--client.base-url", url, "--client.api-key-var", "KEY", "--max-concurrent", "1"]
        command += [f"--env.{role}.harness.id", "null", f"--env.{role}.runtime.type", "subprocess"]
        variables = {**os.environ, "KEY": "k", "PYTHONPATH": str(TASKSETS)}
        variables["PATH"] = f"{python.parent}:{variables['PATH']}"
        ran = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
    (file,) = folder.rglob("traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    traces = [trace for each in episodes for trace in each["traces"]]
    return [ended(trace) for trace in sorted(traces, key=lambda trace: trace["task"]["data"]["idx"])]


def ended(trace: dict[str, Any]) -> tuple[float, str, int]:
    """Return reward, stop condition and number of turns of a trace."""
    reward = sum(each["score"] * each["weight"] for each in trace["rewards"].values())
    return reward, trace["stop_condition"], sum(call.get("node") is not None for call in trace["calls"])


@contextlib.contextmanager
def model(replies: dict[Any, list[Any]]) -> Iterator[str]:
    """Serve OpenAI's API with prepared replies by the first user message; those of ``tw_guess`` in turn."""
    in_turn = iter([each for made in replies.values() for each in made])

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = next(each for each in body["messages"] if each["role"] == "user")["content"]
            number = sum(each["role"] == "assistant" for each in body["messages"])
            reply = replies[asked][number] if asked in replies else next(in_turn)
            message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else ""}
            if not isinstance(reply, str):
                function = {"name": reply.name, "arguments": json.dumps(dict(reply.arguments))}
                message["tool_calls"] = [{"index": 0, "id": f"c{number}", "type": "function", "function": function}]
            choice = {"index": 0, "delta": message, "finish_reason": "stop"}
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "any", "choices": [choice]}
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
