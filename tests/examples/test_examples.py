"""The examples run, and are as short as they claim."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import turnwise as tw
from turnwise.envs.code.backends import shared_backend
from turnwise.envs.registry import find
from turnwise.errors import SandboxUnavailableError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = {
    "minimal_env.py": ("demo/GuessNumber-v0", 15),
    "tool_env.py": ("demo/Bookshops-v0", 20),
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{Path(name).stem}", EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def play(env: tw.TurnEnv, seed: int) -> tuple[float, bool]:
    """Return and success of the oracle."""
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.oracle())
        total, over = total + reward, terminated or truncated
    return total, info["success"]


@pytest.mark.parametrize("name", SMALL)
def test_small_examples_are_small(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    (cls,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    lines = [line for line in text.splitlines()[cls.lineno - 1 : cls.end_lineno] if line.strip()]
    assert len(lines) <= SMALL[name][1], f"{name} promises an environment in {SMALL[name][1]} lines"


@pytest.mark.parametrize("name", SMALL)
def test_their_oracle_solves_every_task(name: str) -> None:
    load(name)
    env = tw.make(SMALL[name][0])
    for seed in range(40):
        assert play(env, seed)[1], f"the oracle of {name} must solve seed {seed}"


@pytest.mark.parametrize("name", SMALL)
def test_they_register_themselves(name: str) -> None:
    module = load(name)
    entry_point = find(SMALL[name][0]).entry_point
    assert isinstance(entry_point, type)
    assert entry_point.__name__ in vars(module)


def test_every_example_is_run_by_a_test() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py")]
    for example in EXAMPLES.iterdir():
        if example.suffix == ".py" or (example / "pyproject.toml").is_file():
            assert any(example.name in source for source in sources), f"no test runs examples/{example.name}"


def test_guess_number_answers() -> None:
    load("minimal_env.py")
    env = tw.make("demo/GuessNumber-v0")
    env.reset(seed=3)
    observation, reward, terminated, truncated, _ = env.step("well, maybe")
    assert "whole number" in observation.text, "what cannot be read becomes an observation"
    assert (reward, terminated, truncated) == (-0.1, False, False), "no cheaper than a wrong guess"
    observation, reward, *_ = env.step("0")
    assert (observation.text, reward) == ("Too low.", -0.1)


def test_bookshops_refuses_in_words() -> None:
    load("tool_env.py")
    env = tw.make("demo/Bookshops-v0")
    env.reset(seed=3)
    observation, *_ = env.step(tw.ToolCall("price", {"shop": "Nobody"}))
    assert "'Adler', 'Blum' or 'Cole'" in observation.text
    *_, terminated, _, info = env.step(tw.ToolCall("buy", {"price": 1}))
    assert terminated
    assert not info["success"], "a price that nobody asks buys nothing"


@pytest.mark.slow
@pytest.mark.shift
def test_a_model_trains_on_code_that_runs_in_sandboxes(tmp_path: Path) -> None:
    try:
        shared_backend(None)
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED, for want of a sandbox: {error}")
    program = [sys.executable, str(EXAMPLES / "code_training.py"), "--short", "--out", str(tmp_path)]
    subprocess.run(program, check=True, capture_output=True, timeout=280)
    assert (tmp_path / "loop" / "model" / "config.json").is_file()
    logged = (tmp_path / "loop" / "metrics.jsonl").read_text(encoding="utf-8")
    steps = [json.loads(line) for line in logged.splitlines()]
    assert all(step["unscored"] == 0 for step in steps if "unscored" in step), "a sandbox failed"


@pytest.mark.slow
@pytest.mark.shift
def test_a_model_trains_on_apps(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "apps_training.py"), "--short", "--out", str(tmp_path)]
    done = subprocess.run(program, check=True, capture_output=True, timeout=280, text=True)
    assert (tmp_path / "loop" / "model" / "config.json").is_file()
    assert done.stdout.count("success") == 4, "two models on two splits"


@pytest.mark.slow
@pytest.mark.shift
def test_a_model_trains_on_the_web(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "web_training.py"), "--short", "--no-chromium", "--out", str(tmp_path)]
    done = subprocess.run(program, check=True, capture_output=True, timeout=280, text=True)
    assert (tmp_path / "bc" / "model" / "config.json").is_file()
    assert done.stdout.count("success") == 1


@pytest.mark.slow
@pytest.mark.shift
def test_a_model_trains_on_searching(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "search_training.py"), "--short", "--out", str(tmp_path)]
    done = subprocess.run(program, check=True, capture_output=True, timeout=280, text=True)
    assert (tmp_path / "loop" / "model" / "config.json").is_file()
    assert done.stdout.count("success") == 8, "two models, two kinds of question, two temperatures"
