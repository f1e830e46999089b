"""An author's attribute in the place of a hook or of the environment's state is refused, with its line and the cure."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.agents.scripted import NullAgent
from turnwise.envs.named import environment
from turnwise.envs.registry import make
from turnwise.envs.tools import Tool
from turnwise.errors import ContractError, UsageError
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.settings import EvalConfig

SOURCE = """
import turnwise as tw

class {name}(tw.ToolEnv):
    {body}
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        {made}
    def start(self, task, rng):
        {started}
        return "Say yes."
    @tw.tool(ends=True)
    def yes(self):
        '''Say yes.'''
    def judge(self):
        return True

tw.register("test/{name}-v0", {name})
"""


def written(folder: Path, name: str, *, body: str = "", made: str = "", started: str = "") -> Path:
    path = folder / f"{name.lower()}_env.py"
    path.write_text(SOURCE.format(name=name, body=body, made=made or "pass", started=started or "pass"))
    return path


@pytest.fixture(autouse=True)
def imports_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("shadow_env", "constructed_env", "played_env"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "tools = []",
            "Shadow.tools is a read-only property of the environment, and a list in the class would replace",
        ),
        ("said = ''", "Shadow.said is a method of the environment, and a str in the class would replace it; give your"),
        ("def turn(self): ...", "Shadow.turn is a read-only property of the environment, and a function in the class"),
        ("def _actions(self): ...", "Shadow._actions is where the environment keeps its state; give your attribute"),
        ("_turn: int = 0", "Shadow._turn is where the environment keeps its state"),
        ("reward: float = 1.0", "Shadow.reward is a method of the environment, and a float in the class"),
    ],
)
def test_a_value_in_the_class_is_refused_with_its_line(tmp_path: Path, body: str, said: str) -> None:
    path = written(tmp_path, "Shadow", body=body)
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        environment(str(path))
    assert f"{path}:5 in Shadow" in str(refused.value), "the line of the attribute, not of the class"


def test_a_value_in_the_constructor_is_refused_with_its_line(tmp_path: Path) -> None:
    id = environment(str(written(tmp_path, "Constructed", made="self.judge = 1.0")))
    with pytest.raises(ContractError, match=r"Constructed.judge is a method .*env.py:8 in Constructed.__init__"):
        make(id)


@pytest.mark.slow
def test_a_value_at_run_time_is_the_environments_failure_and_named(tmp_path: Path) -> None:
    id = environment(str(written(tmp_path, "Played", started="self.said = 'yes'")))
    config = EvalConfig(env=id, n=1, isolation="inline")
    with pytest.raises(UsageError, match=r"Played.said is a method .*give your attribute another name .*env.py:10 in"):
        run_evaluation(config, NullAgent(), store=tmp_path / "store")


def test_what_an_author_may_replace() -> None:
    class Free(tw.TurnEnv):
        max_turns = 3
        said = "no hook of an environment of text"

        @property
        def tools(self) -> Sequence[Tool]:
            return self._mine

        @tools.setter
        def tools(self, tools: Sequence[Tool]) -> None:
            self._mine = tools

        def __init__(self) -> None:
            self.tools = ()
            super().__init__()
            self.judge = lambda: True  # type: ignore[method-assign]
            self.max_turns = 4
            self.turns = self.tool = self.score = 0

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return "Say yes."

        def act(self, action: tw.Action) -> tw.Step:
            return tw.success("Yes.")

    env = Free()
    env.reset(seed=0)
    fork = env.fork()
    assert fork.step("x")[2], "and forking passes by"
    assert not env.turn
