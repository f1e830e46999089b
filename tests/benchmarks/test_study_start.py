"""Fair starts: the gate distinguishes a clone that reads from one that does not, and names its reason."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents import FunctionAgent, OracleAgent
from turnwise.agents.settings import AgentSettings
from turnwise.errors import UsageError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


class Hotter(tw.TurnEnv):
    """Find a number between 0 and 15; the answers say where it lies."""

    max_turns = 4

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.number = task.seed % 16
        return "Name a number from 0 to 15."

    def act(self, action: tw.Action) -> Any:
        said = action.integer()
        if said == self.number:
            return tw.success("Right.")
        return tw.running(f"It is {'above' if self.number > said else 'below'} {said}.", reward=-0.1)

    def oracle(self) -> str:
        return str(self.number)


class Priced(Hotter):
    """The same game, where every turn costs, and success pays nothing."""

    price = 1.0

    def act(self, action: tw.Action) -> Any:
        found = super().act(action)
        return dataclasses.replace(found, reward=-self.price)


class Dear(Priced):
    """The same for ten times the price."""

    price = 10.0


TASKS = [tw.TaskSpec("Hotter", seed=seed) for seed in range(16)]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("study_start")
    for name in [name for name in sys.modules if name.startswith("study_")]:
        sys.modules.pop(name, None)


def halving(context: Any) -> Any:
    """Halve the interval that the answers leave: a policy that reads."""
    low, high = 0, 15

    def say(text: str) -> str:
        nonlocal low, high
        words = text.rstrip(".").split()
        if words[:2] == ["It", "is"]:
            low, high = (int(words[3]) + 1, high) if words[2] == "above" else (low, int(words[3]) - 1)
        return str((low + high) // 2)

    return say


def counting(context: Any) -> Any:
    """Count, whatever the answers are: a policy that does not read."""
    numbers = iter(range(16))
    return lambda text: str(next(numbers))


def measured(start: Any, policy: Any, tasks: Any = TASKS, game: type[tw.TurnEnv] = Hotter) -> Any:
    tasks = [dataclasses.replace(task, family=game.__name__) for task in tasks]
    return start.measure_start(game, lambda _: FunctionAgent(factory=policy), OracleAgent(), tasks, attempts=2)


def test_a_policy_that_reads_earns_more_than_its_blind_twin(start: Any) -> None:
    found = measured(start, halving)
    assert found.plays["T=1"].success > 0.9
    assert found.plays["blind"].success < 0.5
    assert 0 < found.low < found.reads < found.high
    assert found.plays["oracle"].success == 1.0


def test_a_policy_that_does_not_read_is_refused(start: Any) -> None:
    found = measured(start, counting)
    assert found.reads == 0, "other answers change nothing that it does"
    (fault, *_) = found.faults(importlib.import_module("study_config").StartConfig())
    assert "it does not read" in fault


def test_reading_is_measured_in_what_the_study_pays(start: Any) -> None:
    cheap, dear = measured(start, halving, game=Priced), measured(start, halving, game=Dear)
    plays = cheap.plays["T=1"], cheap.plays["blind"]
    assert cheap.reads == pytest.approx(plays[0].reward - plays[1].reward), "turns that reading saves"
    assert 0 < cheap.low < cheap.reads < cheap.high
    assert [dear.reads, dear.low, dear.high] == pytest.approx([10 * cheap.reads, 10 * cheap.low, 10 * cheap.high])
    assert (dear.low > 0) == (cheap.low > 0), "no verdict depends on the unit"
    blind = measured(start, counting, game=Priced)
    assert blind.reads == 0
    assert "difference 0.00 of return" in blind.faults(importlib.import_module("study_config").StartConfig())[0]


def test_what_the_shadow_shows_is_another_tasks_and_what_it_pays_is_its_own(start: Any) -> None:
    env = start.Shadow(Hotter(), Hotter(), TASKS)
    first, _ = env.reset(options={"task": TASKS[4]})
    assert first.text == "Name a number from 0 to 15."
    observation, reward, terminated, *_ = env.step("5")
    assert observation.text == "It is above 5.", "the other episode's number is 12"
    assert (reward, terminated) == (-0.1, False)
    assert env.step("12")[0].text == "It is above 5.", "the other episode ends: its last answer is repeated"
    _, reward, terminated, *_ = env.step("4")
    assert (reward, terminated) == (1.0, True)


def test_where_answers_depend_on_the_action_alone_the_shadow_shows_those_of_another_oracle(start: Any) -> None:
    env = start.Shadow(Hotter(), Hotter(), TASKS, oracle=True)
    env.reset(options={"task": TASKS[4]})
    assert env.step("5")[0].text == "Name a number from 0 to 15.", "that oracle needs one turn: its answer is the last"
    tasks = [dataclasses.replace(task, family="Hotter") for task in TASKS]
    found = start.measure_start(
        Hotter, lambda _: FunctionAgent(factory=halving), OracleAgent(), tasks, attempts=1, shadow="oracle"
    )
    assert found.plays["blind"].success < 0.5


@pytest.mark.parametrize(
    ("now", "greedy", "said"),
    [
        (0.05, 0.05, "solves 5% .* not 10% to 40%"),
        (0.6, 0.6, "solves 60%"),
        (0.3, 0.8, "only sharpen"),
        (0.3, 0.4, None),
    ],
)
def test_the_gate_says_why(start: Any, now: float, greedy: float, said: str | None) -> None:
    plays = {"T=1": {"reward": 0, "success": now}, "T=0": {"reward": 0, "success": greedy}}
    found = start.Start(plays=plays, reads=1.0, low=0.5, high=1.5)
    faults = found.faults(importlib.import_module("study_config").StartConfig())
    if said is None:
        assert not faults
    else:
        assert any(re.search(said, fault) for fault in faults)


def test_too_few_tasks_show_nothing(start: Any) -> None:
    with pytest.raises(UsageError, match="4 tasks cannot show whether a clone reads"):
        measured(start, counting, TASKS[:4])


def test_a_learner_that_would_read_other_text_than_its_clone_is_refused(start: Any, tmp_path: Path) -> None:
    worker = importlib.import_module("study_worker")
    config = str(BENCHMARKS.parent / "configs" / "loop-maze.toml")
    AgentSettings(context="full", show_tools=False).save(tmp_path)
    same = ["--config", config, f"model={tmp_path}", "agent.context=full", "agent.show_tools=false"]
    worker.refuse_other_view("loop", same)
    with pytest.raises(UsageError, match=r"agent\.context = 'last:1', not 'full'; set these"):
        worker.refuse_other_view("loop", same[:3])
    with pytest.raises(UsageError, match=r"agent\.show_tools = True, not False"):
        worker.refuse_other_view("loop", [*same, "agent.show_tools=true"])
