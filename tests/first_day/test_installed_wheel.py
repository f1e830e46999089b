"""The commands of a new user, from an installed wheel, in a folder without files of the repository.

The names in brackets are findings of the first new users. The packages of the wheel are links, as in ``scripts/smoke``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..agents.chat_apis.fake_api import KEY, FakeApi, guesser
from ..commands.conftest import Ran
from ..commands.test_agent_table import LAMP

pytestmark = [pytest.mark.slow, pytest.mark.shift("installed wheel")]
ROOT = Path(__file__).resolve().parents[2]
THOUGHTS = "<think>Perhaps 3? No, rather 12.</think>\n\n"
QUIET = ("threads=1", "tracking.to=[]", "eval.temperature=0", "eval.episodes=2")
Call = Callable[..., Ran]


def done(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command that must succeed."""
    ran = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a virtual environment with the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    venv, python = folder / "venv", folder / "venv" / "bin" / "python"
    done(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    done(sys.executable, "-m", "venv", "--without-pip", venv)
    (wheel,) = folder.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet")
    done(*pip, "--no-deps", "--no-index", wheel)
    site = done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    done(sys.executable, ROOT / "scripts" / "link-dependencies", site, "train")
    return python.parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's folder."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "lamp.py").write_text(LAMP)
    shutil.copy(ROOT / "examples" / "minimal_env.py", folder / "guess.py")
    return folder


@pytest.fixture(scope="module")
def call(installed: Path, folder: Path) -> Call:
    """Run a program of the environment in the user's folder: ``call("turnwise", "envs")``."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CHAT_API_KEY")}

    def called(program: str, *words: str, **more: str) -> Ran:
        command = [str(installed / program), *words]
        ran = subprocess.run(command, cwd=folder, env=variables | more, capture_output=True, text=True, check=False)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return called


@pytest.fixture(scope="module")
def clone(call: Call, folder: Path) -> Path:
    """A nano model that has learned to switch the lamp on by its tool."""
    nano = ("nano.size=0.1M", "nano.layers=1", "nano.hidden=32", "optimizer.lr=1e-2", "agent.context=last:1")
    words = ("demonstrations.count=8", "steps=20", "eval.every=0", "agent.max_tokens=24", "--out", "runs/bc")
    ran = call("turnwise", "train", "bc", "env=lamp.py", *QUIET, *nano, *words)
    assert ran.code == 0, ran.err
    return folder / "runs" / "bc" / "model"


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of a chat API whose model thinks aloud before it guesses."""

    def brain(conversation: list[tuple[str, str]], tools: bool) -> tuple[str, dict[str, Any] | None]:
        bare = [(role, re.sub(r"<think>.*</think>\s*", "", text, flags=re.DOTALL)) for role, text in conversation]
        return THOUGHTS + guesser(bare, tools)[0], None

    api = FakeApi(brain, latency=(0, 0))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            asked = httpx.Request("POST", f"http://here{self.path}", headers=dict(self.headers), content=content)

            async def answered() -> tuple[int, bytes]:
                answer = await api.handle(asked)
                return answer.status_code, await answer.aread()

            status, body = asyncio.run(answered())
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/v1"
        http.shutdown()


def successes(folder: Path) -> list[float]:
    """Return the success of each evaluation in a training run."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["eval/success"] for line in lines if "eval/success" in line]


def test_the_wheel_is_what_runs(call: Call, installed: Path) -> None:
    ran = call("python", "-c", "import turnwise; print(turnwise.__file__)")
    assert Path(ran.out.strip()).is_relative_to(installed.parent), ran.out


def test_the_wheel_has_every_data_file(call: Call) -> None:
    home = Path(call("python", "-c", "import turnwise; print(turnwise.__path__[0])").out.strip())
    files = [
        path.relative_to(ROOT) for path in (ROOT / "tasks").rglob("*") if path.suffix in (".html", ".sql", ".toml")
    ]
    assert {path.suffix for path in files} == {".html", ".sql", ".toml"}
    missing = [str(path) for path in files if not (home / path).is_file()]
    assert not missing, f"tables, pages and texts of tasks must be in the wheel: {missing}"


def test_training_goes_on_from_a_clone_and_resumes_from_its_folder(call: Call, clone: Path, folder: Path) -> None:
    """Settings of the model are taken over (A1), and a run's folder is enough to go on or to repeat it (B8)."""
    words = (*QUIET, "model=runs/bc/model", "tasks_per_step=1", "group_size=2", "steps=1", "--out", "runs/loop")
    ran = call("turnwise", "train", "loop", "env=lamp.py", *words)
    assert ran.code == 0, ran.err
    assert successes(folder / "runs" / "loop")[0] == 1.0
    settings = [json.loads((path / "agent.json").read_text()) for path in (clone, folder / "runs" / "loop" / "model")]
    assert settings[0] == settings[1]

    ran = call("turnwise", "train", "loop", "--out", "runs/loop", "steps=2", "--resume")
    assert ran.code == 0, ran.err
    ran = call("turnwise", "train", "loop", "--config", "runs/loop/config.json", "seed=1", "--out", "runs/again")
    assert ran.code == 0, ran.err
    assert successes(folder / "runs" / "again")[0] == 1.0


def test_the_trainer_takes_a_file_as_a_module_too(call: Call, clone: Path) -> None:
    words = (
        "env=lamp.py",
        *QUIET,
        "model=runs/bc/model",
        "tasks_per_step=1",
        "group_size=2",
        "steps=1",
        "out=runs/module",
    )
    ran = call("python", "-m", "turnwise.trainers.loop", *words)
    assert ran.code == 0, f"an environment's file is named as in `turnwise train` (C2): {ran.err}"


def test_a_downloaded_model_calls_tools(call: Call, clone: Path, folder: Path) -> None:
    shutil.copytree(clone, folder / "hub", ignore=shutil.ignore_patterns("agent.json"))
    words = ("-n", "4", "temperature=0", "agent.max_tokens=24", "agent.context=last:1", "--no-report")
    ran = call("turnwise", "eval", "lamp.py", "--policy", "./hub", *words)
    assert ran.code == 0, ran.err
    assert "success 100.0 %" in ran.out, "tool calls are read without agent.json (A2)"


def test_a_reasoning_model_behind_an_api_is_evaluated(call: Call, server: str, folder: Path) -> None:
    words = ("-n", "6", "--price", "1,2", "--max-cost", "1", "--out", "runs/api")
    ran = call("turnwise", "eval", "guess.py", "--policy", f"chat:{server}#thinker", *words, CHAT_API_KEY=KEY)
    assert ran.code == 0, ran.err
    assert "success 100.0 %" in ran.out, "thoughts are not part of the action (A3)"
    summary = json.loads((folder / "runs" / "api" / "summary.json").read_text())
    assert summary["api"]["cost"] > 0, "an API's cost is counted (A4)"


def test_a_bug_of_a_tool_is_not_the_policys_failure(call: Call, folder: Path) -> None:
    (folder / "buggy.py").write_text(LAMP.replace("self.on = True", 'raise ValueError("a bug of mine")'))
    ran = call("turnwise", "eval", "buggy.py", "--policy", "oracle", "-n", "3", "--no-report")
    assert ran.code == 3, "nothing is known about the policy (A5)"
    assert "a bug of mine" in ran.err
    assert "buggy.py" in ran.err


def test_an_environment_without_a_family_holds_nothing_out(call: Call) -> None:
    ran = call("turnwise", "eval", "guess.py", "--policy", "oracle", "-n", "6", "--out", "runs/seeds")
    assert ran.code == 0, ran.err
    assert "has no task family" in ran.out, "test tasks of another seed are not called held out (B3)"
    assert "test_template" not in ran.out


def test_two_versions_of_an_environment_are_not_mixed(call: Call, folder: Path) -> None:
    source = (folder / "guess.py").read_text()
    (folder / "mine.py").write_text(source.replace("demo/", "mine/"))
    words = ("turnwise", "eval", "mine.py", "--policy", "oracle", "-n", "4", "--no-report", "--out", "runs/mine")
    assert call(*words).code == 0
    (folder / "mine.py").write_text(source.replace("demo/", "mine/").replace("reward=-0.1", "reward=-0.5"))
    call(*words, "--resume").refused("another version of mine/GuessNumber-v0", "--overwrite")
    assert call(*words, "--overwrite").code == 0, "B4: a mended environment is played again"
