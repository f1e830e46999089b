"""Everything but training and local models works where ``turnwise[train]`` is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from turnwise.inference.train_extra import INSTALL, PACKAGES

from .test_structure import modules

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCAL_MODELS = {
    "inference.attention",
    "inference.continuous",
    "inference.kv_cache",
    "inference.models",
    "inference.nano",
    "inference.precision",
    "inference.serving.worker.turnwise_vllm_worker",
    "inference.side_stream",
    "inference.transformers_policy",
    "inference.value_guided",
}
"""The only modules outside of ``trainers`` that may import the extra's packages at once."""

WITHOUT = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {set(PACKAGES)!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without

def run(*words, code=0):
    from turnwise.cli import main
    try:
        main(words)
    except SystemExit as end:
        assert (end.code or 0) == code, (words, end.code)
"""
"""Start a process as if the packages were not installed; ``run`` calls the command line."""


def without_train(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process that cannot find the packages of the extra."""
    command = [sys.executable, "-c", WITHOUT + script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one environment and a fake chat API."""
    shutil.copy(ROOT / "examples" / "minimal_env.py", tmp_path / "guess.py")
    shutil.copy(ROOT / "tests" / "agents" / "chat_apis" / "fake_api.py", tmp_path / "fake_api.py")
    return tmp_path


def test_the_extra_holds_what_the_code_names() -> None:
    def names(requirements: list[str]) -> set[str]:
        return {requirement.partition(">")[0] for requirement in requirements}

    assert names(PROJECT["optional-dependencies"]["train"]) == PACKAGES
    assert not names(PROJECT["dependencies"]) & PACKAGES


@pytest.mark.slow
def test_every_other_module_can_be_imported(tmp_path: Path) -> None:
    allowed = {name for name in modules() if name in LOCAL_MODELS or name.startswith("trainers.")}
    names = (name for name in modules() if name not in allowed and name not in ("", "__main__"))
    light = sorted(name.removesuffix(".__init__") for name in names)
    script = f"""
import importlib
for name in {light!r}:
    try:
        importlib.import_module("turnwise." + name)
    except ModuleNotFoundError as error:
        assert error.name.partition(".")[0] not in {set(PACKAGES)!r}, f"{{name}} needs {{error.name}}"
    except Exception as error:
        assert "turnwise[" in str(error), (name, error)  # another extra
"""
    without_train(script, tmp_path)


@pytest.mark.slow
@pytest.mark.shift
def test_environments_are_listed_certified_and_evaluated(folder: Path) -> None:
    script = """
run("--help")
run("version")
run("envs")
run("certify", "guess.py", "--quick")
for name in ("oracle", "random"):
    run("eval", "guess.py", "--policy", name, "-n", "8", "--out", f"runs/{name}")
run("report", "runs/oracle")
run("compare", "runs/random", "runs/oracle")
run("leaderboard", "runs")
run("replay", "runs/oracle", "--env", "guess.py")
run("data", "guess.py", "--policy", "oracle", "-n", "4", "--out", "runs/data")
run("sandbox", "list")
"""
    done = without_train(script, folder)
    assert "success 100.0 %" in done.stdout
    assert "demo/GuessNumber-v0: certified" in done.stdout
    assert (folder / "runs" / "oracle" / "report.html").stat().st_size > 10_000


@pytest.mark.slow
def test_a_chat_api_is_evaluated(folder: Path) -> None:
    script = """
import os
sys.path.insert(0, ".")
from fake_api import KEY, FakeApi, guesser
from turnwise.agents.chat_apis import client
os.environ["CHAT_API_KEY"] = KEY
client.http_client = FakeApi(guesser, latency=(0, 0)).client
run("eval", "guess.py", "-p", "chat:https://api.test/v1#llama", "--price", "2,10", "-n", "3", "--out", "runs/a")
"""
    without_train(script, folder)
    summary = json.loads((folder / "runs" / "a" / "summary.json").read_text())
    assert summary["success"]["value"] == 1
    assert (folder / "runs" / "a" / "report.md").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("train", "loop", "env=guess.py", "model=nano"),
        ("train", "bc", "--settings"),
        ("plan", "qwen3-0.6b-loop"),
        ("eval", "guess.py", "--policy", "runs/loop/model"),
        ("eval", "guess.py", "--policy", "http://127.0.0.1:9"),
        ("endpoint", "--policy", "runs/loop/model"),
    ],
    ids=" ".join,
)
def test_what_needs_the_extra_names_it_in_one_line(folder: Path, words: tuple[str, ...]) -> None:
    done = without_train(f"run(*{words!r}, code=2)", folder)
    assert done.stderr.startswith("turnwise: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert INSTALL in done.stderr


@pytest.mark.slow
def test_a_public_name_that_needs_the_extra_says_so(tmp_path: Path) -> None:
    script = """
import turnwise.trainers
try:
    turnwise.trainers.LoopConfig
except ModuleNotFoundError as error:
    assert str(error) == "turnwise.trainers.LoopConfig needs 'torch': pip install 'turnwise[train]'", error
else:
    raise AssertionError("it was imported without torch")
import turnwise as tw
try:
    tw.train("loop", "turnwise/Maze-v0", model="nano")
except tw.TurnwiseError as error:
    assert "turnwise[train]" in str(error), error
"""
    without_train(script, tmp_path)


def test_another_missing_package_is_not_mistaken_for_the_extra() -> None:
    from turnwise.inference.train_extra import train_extra

    with pytest.raises(ModuleNotFoundError, match="no_such_module"), train_extra("this"):
        __import__("no_such_module")
