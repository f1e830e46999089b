"""An evaluation in which episodes have no score: its exit code, and the line that says how to go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FLAKY = """
import pathlib
import turnwise as tw

def fail(name):
    left = int(pathlib.Path(name).read_text())
    pathlib.Path(name).write_text(str(left - 1))
    if left > 0:
        raise tw.errors.InfrastructureError("the machine is gone")

class Flaky(tw.TurnEnv):
    def start(self, task, rng):
        fail("starts")
        return "Say anything."

    def act(self, action):
        fail("acts")
        return tw.success("Good.")

    def oracle(self):
        return "yes"

tw.register("cli/Flaky-v0", Flaky)
"""
WORDS = ("eval", "flaky_cli.py", "-p", "oracle", "-n", "10", "retries=0", "concurrency=1", "--out", "out")
Evaluate = Callable[..., Any]


@pytest.fixture
def evaluate(run: Callable[..., Any], tmp_path: Path) -> Evaluate:
    """Evaluate while the first ``starts`` resets and ``acts`` steps fail."""
    (tmp_path / "flaky_cli.py").write_text(FLAKY)

    def call(*words: str, starts: int = 0, acts: int = 0, bug: bool = False) -> Any:
        if bug:
            (tmp_path / "flaky_cli.py").write_text(FLAKY.replace("tw.errors.InfrastructureError", "KeyError"))
        (tmp_path / "starts").write_text(str(starts))
        (tmp_path / "acts").write_text(str(acts))
        return run(*WORDS, "--no-report", *words)

    return call


def test_too_many_episodes_without_a_score_end_with_3_and_resume(evaluate: Evaluate) -> None:
    ran = evaluate(starts=7)
    assert ran.code == 3, ran.err
    last = ran.err.splitlines()[-1]
    assert last == (
        "turnwise: 7 of 10 episodes have no score. Run the same command with --resume to play 7 of them again."
    )
    assert evaluate("--resume").code == 0, "all are scored now"


def test_json_has_the_same_exit_code(evaluate: Evaluate) -> None:
    ran = evaluate("--json", starts=7)
    assert (ran.code, json.loads(ran.out)["scored"]) == (3, 3)


def test_few_episodes_without_a_score_are_named_and_succeed(evaluate: Evaluate) -> None:
    ran = evaluate(starts=2)
    assert ran.code == 0, "two of ten are fewer than make a result inconclusive"
    assert "2 of 10 episodes have no score." in ran.err


def test_failure_rate_decides_how_many_are_too_many(evaluate: Evaluate) -> None:
    assert evaluate("failure_rate=0.8", starts=7).code == 0


def test_what_failed_after_an_action_needs_another_cure(evaluate: Evaluate) -> None:
    ran = evaluate(starts=2, acts=3)
    assert ran.code == 3
    assert "--resume to play 2 of them again. 3 failed after an action of the agent and stay" in ran.err
    assert evaluate("--resume").code == 3, "those that stay are still too many"
    assert evaluate("--overwrite").code == 0


def test_no_score_at_all_has_the_same_exit_code(evaluate: Evaluate) -> None:
    ran = evaluate(starts=10)
    assert ran.code == 3, ran.err
    assert "none of 10 episodes is scored" in ran.err
    assert "--resume to play 10 of them again" in ran.err
    assert evaluate("--resume").code == 0


def test_a_bug_of_the_environment_has_to_be_fixed_first(evaluate: Evaluate) -> None:
    """To play the same bug again does not help, and a repaired file is another version: it needs --overwrite."""
    fix = "The environment raised an error: fix its file first; then --overwrite plays everything again."
    ran = evaluate(starts=4, bug=True)
    assert ran.code == 3, ran.err
    last = "If the cause is not in the file, run the same command with --resume to play 4 of them again."
    assert ran.err.splitlines()[-1] == f"turnwise: 4 of 10 episodes have no score. {fix} {last}"
    ran = evaluate("--overwrite", acts=10, bug=True)
    assert "none of 10 episodes is scored (10 environment bug)" in ran.err
    assert ran.err.endswith(f"{fix} With --resume, 10 failed after an action of the agent and stay as they are.\n")
