"""Environments for verifiers: one episode as its ``Env`` plays it, and one real run of its evaluation.

::

    python -m venv v && v/bin/pip install turnwise verifiers==0.4.0 uv
    VERIFIERS_PYTHON=v/bin/python pytest tests/rollouts/test_for_verifiers.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from turnwise.envs import trl_rows
from turnwise.errors import TurnwiseError, UsageError
from turnwise.evals.audit.logs import find_logs
from turnwise.rollouts import verifiers_taskset
from turnwise.rollouts.text_episode import TextEpisode
from turnwise.tasks.spec import TaskSpec

ROOT = Path(__file__).parents[2]
PLUGIN = '''
"""A plugin for verifiers: an environment of Turnwise, and its taskset."""

import turnwise as tw
from turnwise.rollouts import verifiers_taskset


class Safe(tw.ToolEnv):
    """Open a safe."""

    max_turns = 4

    def start(self, task, rng):
        self.opened, self.number = False, task.seed
        said = f"Open it with the code {7 + task.seed}."
        return [tw.message("system", "You guard a safe."), tw.message("user", said)]

    @tw.tool(ends=True)
    def open(self, code: int) -> str:
        """Open the safe.

        Args:
            code: its code.
        """
        if self.number == 1:
            raise RuntimeError("the safe is broken")
        self.opened = code == 7 + self.number
        return "Done."

    def judge(self):
        return self.opened


tw.register("demo/Safe-v0", Safe)
'''
TASKSET = '\n\nTasks, Env = verifiers_taskset("demo/Safe-v0", count=4)\n__all__ = ["Tasks", "Env"]\n'


def call(code: int) -> str:
    """Return the text of a call that opens the safe."""
    return f"<tool_call>{json.dumps({'name': 'open', 'arguments': {'code': code}})}</tool_call>"


@pytest.fixture
def env_id() -> str:
    """The environment of the plugin, registered in this process."""
    names: dict[str, Any] = {"__name__": "guards"}
    exec(PLUGIN, names)
    return "demo/Safe-v0"


def played(env_id: str, seed: int, *replies: str) -> tuple[TextEpisode, list[str]]:
    """Play an episode with these replies; return it and every text of the environment."""

    episode = TextEpisode(env_id, {}, "auto")
    row = trl_rows(env_id, seed + 1)[seed]
    texts = list(episode.start(TaskSpec.from_json(row["task"])))
    try:
        texts += [episode.answer(reply) for reply in replies]
        episode.give_up()
    finally:
        episode.close()
    return episode, texts


def test_a_reply_is_an_action_and_tools_are_in_the_system_message(env_id: str) -> None:
    play, texts = played(env_id, 0, "<think>7?</think>" + call(7))
    assert texts[0].startswith("You guard a safe.")
    assert '"open"' in texts[0]
    assert "<tool_call>" in texts[0]
    assert texts[1:] == ["Open it with the code 7.", "Done."]
    assert (play.total, play.ended) == (1.0, {"terminated": True, "truncated": False, "success": True})


def test_a_model_that_stops_is_judged_as_at_the_turn_limit(env_id: str) -> None:
    play, texts = played(env_id, 0, "I do not know.")
    assert len(texts) == 3
    assert (play.total, play.ended["success"], play.over, play.turns) == (0.0, False, True, 4)


def test_an_environment_that_fails_raises(env_id: str) -> None:
    with pytest.raises(RuntimeError, match="the safe is broken"):
        played(env_id, 1, call(8))


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"split": "tset"}, "unknown task split 'tset'"), ({"count": 0}, "count is 0"), ({"level": 99}, "no level 99")],
)
def test_what_does_not_fit_is_refused_when_the_plugin_is_made(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], says: str
) -> None:
    monkeypatch.setitem(sys.modules, "verifiers", ModuleType("verifiers"))
    monkeypatch.setitem(sys.modules, "verifiers.v1", ModuleType("verifiers.v1"))
    with pytest.raises(TurnwiseError, match=says):
        verifiers_taskset("turnwise/Maze-v0", **fields)


def test_without_verifiers_one_line_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install verifiers==0\.4\.0"):
        verifiers_taskset("turnwise/Maze-v0")


class Scripted(BaseHTTPRequestHandler):
    """An endpoint of OpenAI's API, whose model reads the code from its last message. It fails for task 2."""

    def do_POST(self) -> None:
        """Answer a request for a chat completion."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = asked["messages"][-1]["content"]
        text = text if isinstance(text, str) else text[0]["text"]
        code = int(text.rstrip(".").rpartition(" ")[2])
        made = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        said = {"role": "assistant", "content": call(code)}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        parts = [
            {**made, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            {**made, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
        ]
        body = "".join(f"data: {part}\n\n" for part in [*map(json.dumps, parts), "[DONE]"]).encode()
        self.send_response(200 if code != 9 else 400)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.mark.slow
@pytest.mark.skipif("VERIFIERS_PYTHON" not in os.environ, reason="NOT TESTED with verifiers' evaluation; see above")
def test_verifiers_own_evaluation_plays_it(tmp_path: Path) -> None:
    (tmp_path / "guards.py").write_text(PLUGIN + TASKSET)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {
        "model": "m",
        "client.base-url": f"http://127.0.0.1:{server.server_port}/v1",
        "client.api-key-var": "KEY",
        "env.player.harness.id": "null",
        "env.player.runtime.type": "subprocess",
        "output-dir": str(tmp_path / "out"),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    python = Path(os.environ["VERIFIERS_PYTHON"])
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}", "KEY": "none"}
    env["PATH"] = f"{python.parent}:{env['PATH']}"  # its harness runs uv
    command = [str(python.with_name("vf-eval")), "guards", "-n", "4", *words, "--no-push", "--no-rich"]
    try:
        ran = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    finally:
        server.shutdown()
        server.server_close()
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
    (log,) = find_logs(tmp_path / "out")
    records = {record.task.partition(" ")[0]: record for record in log.records if record.task}
    scores = {task: (record.outcome, record.value, record.turns) for task, record in sorted(records.items())}
    assert scores["0"] == scores["3"] == ("scored", 1.0, 1)
    assert [scores[task][:2] for task in ("1", "2")] == [("failed", None)] * 2, "failures are not zeros"
