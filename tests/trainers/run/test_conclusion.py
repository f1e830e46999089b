"""A finished run's report on its success, and on steps in which nothing was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnwise.trainers.run.conclusion import (
    LastSuccess,
    actions_cut,
    episodes_lost,
    nothing_learned,
    only_critic,
    success_line,
)
from turnwise.trainers.run.metrics import MetricsLog, StepProgress
from turnwise.trainers.run.reports import Reports

IDLE: dict[str, Any] = {"step": 1, "updates": 0.0, "episodes": 4.0, "groups_without_variance": 2.0, "success": 0.0}

EVALUATED: dict[str, Any] = {"eval/episodes": 50.0, "eval/unscored": 0.0}
EVALUATED_BADLY: dict[str, Any] = {"eval/episodes": 10.0, "eval/unscored": 40.0}


def test_success_is_that_before_and_after() -> None:
    before, after = ({"step": step, "eval/success": 0.2 + step / 10, "eval/episodes": 50.0} for step in (0, 5))
    between = {"step": 3, "success": 0.9}
    assert (
        success_line([before, between, after], "dev")
        == "success in 50 dev episodes: 20.0 % → 70.0 % (56.2 – 80.9, Wilson 95 %)"
    )
    assert success_line([before], "dev") == "success in 50 dev episodes: 20.0 % (11.2 – 33.0, Wilson 95 %)"
    assert success_line([between], "dev") == "success on training tasks in step 3: 90.0 %"
    assert success_line([{"step": 1, "loss": 2.0}], "dev") == "", "behavior cloning without evaluations plays nothing"


def test_a_run_within_the_warmup_of_its_critic_is_told() -> None:
    assert only_critic(5, 5).startswith("the policy has not learned: in the first 5 steps only the critic does")
    assert only_critic(6, 5) == ""


def test_evaluations_of_other_tasks_are_not_compared() -> None:
    """``--resume eval.episodes=10`` changes the tasks: a rise could be that of easier ones."""
    before: dict[str, Any] = {"step": 0, "eval/success": 0.2, "eval/episodes": 49.0, "eval/unscored": 1.0}
    after = {"step": 5, "eval/success": 0.9, "eval/episodes": 10.0, "eval/unscored": 0.0}
    found = success_line([before, after], "dev")
    assert found.startswith(
        "success in 10 dev episodes (the first evaluation had 50, and cannot be compared): 90.0 % ("
    )
    same = {**after, "eval/episodes": 50.0}
    assert "20.0 % → 90.0 %" in success_line([before, same], "dev"), "a lost episode does not change the tasks"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "no attempt succeeded; start from a model that succeeds sometimes"),
        ({"cut_actions": 0.9}, "90% of actions were cut at agent.max_tokens"),
        ({"success": 1.0}, "choose harder tasks"),
        ({"success": 0.5}, "use more attempts per task (group_size)"),
        ({"groups_without_variance": 0.0}, "no episode had an advantage"),
        ({"groups_without_variance": 0.5}, "in 1 group all attempts"),
        ({"groups": 2.0}, "in 4 groups all attempts"),
        ({"groups": 3.0}, "different returns, and the algorithm gave none of them an advantage"),
        ({"groups": 3.0, "groups_without_baseline": 1.0}, "in 4 groups all attempts"),
        ({"episodes": 0.0}, "no episode was played to its end"),
    ],
)
def test_a_run_without_an_update_says_why(changed: dict[str, Any], said: str) -> None:
    found = nothing_learned([IDLE | changed, IDLE | changed | {"step": 2}])
    assert found.startswith("nothing was learned in 2 steps: ")
    assert said in found


LEARNED: dict[str, Any] = IDLE | {"updates": 1.0, "groups_without_variance": 0.0, "success": 0.075}
FAILED: dict[str, Any] = LEARNED | {"success": 0.0}
EVALUATED_AT_0: dict[str, Any] = {"step": 0, "eval/success": 0.5}
LOST, CHANCE, START = "has fallen to 0 since step", "so it may be chance", "start from a model that succeeds sometimes"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([LEARNED, IDLE, IDLE], f"{LOST} 1 (7.5 %)"),
        ([EVALUATED_AT_0, FAILED, FAILED], f"{LOST} 0 (50.0 %)"),
        ([LEARNED], f"7.5 % did in step 1, {CHANCE}"),
        ([EVALUATED_AT_0], f"50.0 % did in step 0, {CHANCE}"),
        ([EVALUATED_AT_0, IDLE, IDLE], START),
        ([FAILED, FAILED, FAILED], START),
    ],
    ids=["a step", "an evaluation", "one step without", "the first step without", "not trained since", "never"],
)
def test_a_policy_that_learned_to_fail_is_not_sent_back_to_its_start(before: list[dict[str, Any]], said: str) -> None:
    line = IDLE | {"step": 9}
    found = nothing_learned([line], LastSuccess([*before, line]).remedy)
    assert said in found
    assert sum(each in found for each in (LOST, CHANCE, START)) == 1
    for setting in ("optimizer.lr", "eval.keep_best"):
        assert (setting in found) is (LOST in said)


def test_a_collapse_is_reported_after_chance_was_and_also_after_a_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with MetricsLog(tmp_path) as log:
        reports = Reports(StepProgress("loop", 9, enabled=False), log)
        for step, line in enumerate([LEARNED, IDLE, IDLE], 1):
            reports.write(step, line)
    assert (CHANCE in caplog.text, LOST in caplog.text) == (True, False)
    with MetricsLog(tmp_path, resume_at=3) as log:
        Reports(StepProgress("loop", 9, enabled=False), log).write(4, IDLE)
    assert f"{LOST} 1 (7.5 %)" in caplog.text


def test_one_update_is_enough_and_without_a_count_nothing_is_said() -> None:
    assert nothing_learned([IDLE, IDLE | {"updates": 1.0}]) == ""
    assert nothing_learned([{"step": 1, "loss": 2.0}]) == ""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([EVALUATED] * 20 + [EVALUATED_BADLY], "lost 40 of 50 held-out"),
        ([{"episodes": 64.0, "unscored": 0.0}] * 90 + [{"episodes": 60.0, "unscored": 4.0}] * 10, "lost 40 of 640"),
        ([{"episodes": 90.0, "policy_failed": 5.0, "unscored": 5.0}], ""),
        ([{"episodes": 90.0, "policy_failed": 4.0, "unscored": 6.0}], "lost 6 of 100 training episodes"),
        ([{"episodes": 30.0, "unscored": 1.0}, {"episodes": 30.0, "unscored": 3.0}], "lost 4 of 64 training episodes"),
        ([{"episodes": 8.0, "unscored": 2.0}], ""),
        ([{"eval/episodes": 40.0, "eval/unscored": 10.0}], "lost 10 of 50 held-out episodes"),
        ([{"step": 1, "loss": 2.0}], ""),
    ],
    ids=["one evaluation", "the last steps", "5 %", "6 %", "over the steps", "two", "held-out", "nothing is played"],
)
def test_more_than_5_percent_lost_are_inconclusive(lines: list[dict[str, Any]], said: str) -> None:
    found = episodes_lost(lines)
    assert (said in found) if said else not found
    assert ("inconclusive" in found) is bool(said)


@pytest.mark.parametrize(("share", "warns"), [(None, False), (0.0, False), (0.05, False), (0.06, True), (1.0, True)])
def test_more_than_one_cut_action_in_twenty_is_a_warning(share: float | None, warns: bool) -> None:
    said = actions_cut({"step": 3, "cut_actions": share})
    assert bool(said) == warns
    assert not warns or (f"{share:.0%} of the actions in step 3" in said and "raise agent.max_tokens" in said)


@pytest.mark.parametrize(("share", "told"), [(0.05, 0), (0.5, 1)])
def test_targets_that_no_bin_holds_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, share: float, told: int
) -> None:
    with MetricsLog(tmp_path) as log:
        reports = Reports(StepProgress("archer", 9, enabled=False), log)
        for step in (3, 4):
            reports.write(step, {"critic/outside": share})
    assert caplog.text.count("50% of the critic's targets in step 3") == caplog.text.count("outside") == told
