"""A Python tool for any tool environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.code.tool import CodeTool

from ...examples.test_examples import load, play

pytestmark = pytest.mark.usefixtures("backend")


class Notes(CodeTool):
    """A task without requirements."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Go on."

    @tw.tool
    def note(self, text: str) -> str:
        """Note something."""
        return text


def ran(env: tw.TurnEnv, code: str) -> Any:
    return env.step(tw.ToolCall("python", {"code": code}))[0].text


def test_programs_share_files_and_episodes_share_nothing() -> None:
    env = Notes()
    env.reset(seed=0)
    assert [tool.name for tool in env.tools] == ["python", "note"]
    assert ran(env, "open('f', 'w').write('kept'); print(2 ** 70)") == f"{2**70}\nExit code 0."
    assert ran(env, "print(open('f').read())").startswith("kept")
    env.reset(seed=0)
    assert "FileNotFoundError" in ran(env, "open('f')")


def test_a_fork_has_a_sandbox_of_its_own() -> None:
    env = Notes()
    env.reset(seed=0)
    ran(env, "open('f', 'w').write('first')")
    fork = env.fork()
    ran(env, "open('f', 'w').write('second')")
    assert ran(fork, "print(open('f').read())").startswith("first")


def test_the_example_is_short_and_its_oracle_solves_it() -> None:
    module = load("code_tool_env.py")
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    body = source[source.index("class BigProduct") : source.index("tw.register")]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20
    assert play(tw.make("demo/BigProduct-v0"), 0) == (1.0, True)
