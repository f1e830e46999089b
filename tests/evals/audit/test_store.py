"""An audit names planted faults of a store, and reports nothing of a healthy one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs.messages import Action, Observation, message
from turnwise.evals.audit.checks import Audit, audit
from turnwise.evals.audit.store import context_of
from turnwise.rollouts.episode import UNANSWERED, Episode, Fork, Outcome, Turn
from turnwise.rollouts.store import EpisodeStore
from turnwise.tasks.score import Score
from turnwise.tasks.spec import TaskSpec

from ...commands.conftest import run  # noqa: F401 - a fixture

Run = Callable[..., Any]


def played(n: int, *, level: int = 1, success: bool = True, seconds: float = 1.0, turns: int = 2) -> Episode:
    """An episode whose turns continue one another's tokens."""
    made = []
    for index in range(turns):
        made.append(
            Turn(
                Observation((message("user", "Go."),)),
                Action(f"move {n}"),
                float(success and index == turns - 1),
                terminated=index == turns - 1,
                prompt_ids=tuple(range(3 * index + 1)),
                action_ids=(3 * index + 1, 3 * index + 2),
                logprobs=(-0.1, -0.2),
                versions=(0, 0),
                seconds_policy=0.01 + n / 1000,
            )
        )
    score, task = Score(success=success), TaskSpec("Test", level=level, seed=n)
    return Episode(f"e{n}", "test/A-v0", task, f"g{n}", tuple(made), Outcome.COMPLETED, score=score, seconds=seconds)


def broken(n: int, **how: Any) -> Episode:
    return replace(played(n, **how), outcome=Outcome.INFRA_FAILED, score=None, error="EnvironmentDiedError: it died")


def names(found: Audit, *, faults: bool) -> list[str]:
    return [finding.name for finding in found.findings if finding.fault is faults]


HEALTHY = [played(n, seconds=1 + n % 3) for n in range(30)]


def test_a_healthy_store_has_nothing_to_report() -> None:
    found = audit(HEALTHY, expected=30)
    assert (found.passed, found.findings) == (True, ())
    assert found.outcomes == {"completed": 30}


UNANSWERED_TURN = replace(HEALTHY[3].turns[0], info={UNANSWERED: True})
PLANTED = {
    "a lost episode": (HEALTHY[1:], "lost", "1 of 30 episodes that the summary counts is not in the store"),
    "a fork without its parent": (
        [*HEALTHY, replace(played(99), fork=Fork("gone", ()))],
        "lost",
        "1 forked episode has no parent",
    ),
    "a repeated record": ([*HEALTHY, HEALTHY[4]], "duplicated", "1 episode id occurs more than once: e4"),
    "a copy under another id": (
        [*HEALTHY, replace(HEALTHY[4], episode_id="other")],
        "duplicated",
        "1 episode copies another",
    ),
    "a score despite a failure": (
        [*HEALTHY, replace(played(77), turns=(UNANSWERED_TURN, *HEALTHY[3].turns[1:]))],
        "zeros",
        "1 episode is scored although it failed (1 the infrastructure failed in a step); 0 count as zero",
    ),
    "a failure with a score": (
        [*HEALTHY, replace(broken(78), score=Score(success=False))],
        "zeros",
        "1 episode is scored although it failed (1 EnvironmentDiedError); 1 counts as zero: e78",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found(planted: str) -> None:
    episodes, name, words = PLANTED[planted]
    found = audit(episodes, expected=30)
    assert names(found, faults=True) == [name]
    assert words in found.findings[0].text


def test_what_a_reader_should_know_is_a_note_and_no_fault() -> None:
    rewritten = replace(HEALTHY[0].turns[1], prompt_ids=(9, 9, 9, 9))
    timed_out = replace(played(40, success=False), outcome=Outcome.POLICY_FAILED, error="PolicyTimeoutError: late")
    episodes = [replace(HEALTHY[0], turns=(HEALTHY[0].turns[0], rewritten)), *HEALTHY[1:], timed_out]
    found = audit(episodes)
    assert found.passed
    assert sorted(names(found, faults=False)) == ["tokens", "zeros"]
    texts = " ".join(finding.text for finding in found.findings)
    assert "1 of 31 scored episodes is a failure of the policy (1 PolicyTimeoutError)" in texts
    assert "1 of 31 turns does not continue the tokens before them" in texts


@pytest.mark.parametrize(
    ("file", "settings", "said"),
    [
        ("config.json", {"config": {"agent": {"context": "last:1"}}}, "before them: agent.context is last:1"),
        ("summary.json", {"made": {"settings": {"agent": {"context": "short:1:9"}}}}, "agent.context is short:1:9"),
        ("config.json", {"config": {"agent": {"context": "full"}}}, f"before them: {HEALTHY[0].episode_id}"),
        ("config.json", {"config": {}}, f"before them: {HEALTHY[0].episode_id}"),
    ],
    ids=["training", "evaluation", "full", "not recorded"],
)
def test_a_history_that_the_settings_rewrite_is_put_down_to_them(
    file: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(json.dumps(settings))
    rewritten = replace(HEALTHY[0].turns[1], prompt_ids=(9, 9, 9, 9))
    episode = replace(HEALTHY[0], turns=(HEALTHY[0].turns[0], rewritten))
    (found,) = audit([episode], context=context_of(tmp_path / "episodes")).findings
    assert found.text.endswith(said)
    assert (found.count, found.fault) == (1, False)


def test_bias_by_time_level_and_length_is_reported() -> None:
    hard = [broken(100 + n, level=2, seconds=20.0) for n in range(15)]
    solved = [played(200 + n, level=2, turns=2) for n in range(15)]
    unsolved = [played(300 + n, success=False, turns=6) for n in range(15)]
    found = audit([*HEALTHY, *hard, *solved, *unsolved])
    texts = [finding.text for finding in found.findings]
    assert found.passed
    assert names(found, faults=False) == ["bias", "bias", "length"]
    assert "failed episodes took 20 s (median), scored ones 1 s" in texts[0]
    assert "42.9% of slow and 0.0% of fast ones failed (difference +43 points, 95 % interval" in texts[0]
    assert "50.0% of level 2 failed and 0.0% of level 1" in texts[1]
    assert "solved episodes have 2.0 turns, unsolved ones 6.0" in texts[2]


def test_the_command_ends_with_1_for_a_fault(run: Run) -> None:  # noqa: F811
    with EpisodeStore(Path("runs/one"), run={"env": "test/A-v0"}) as store:
        for episode in (HEALTHY[0], HEALTHY[1]):
            store.append(episode)
    ran = run("audit", "runs/one")
    assert (ran.code, "nothing to report" in ran.out) == (0, True), ran.err
    with EpisodeStore(Path("runs/two"), run={"env": "test/A-v0"}) as store:
        store.append(HEALTHY[0])
        store.append(replace(HEALTHY[0], episode_id="other"))
    ran = run("audit", "runs/two")
    assert ran.code == 1
    assert "FAULT duplicated: 1 episode copies another" in ran.out
    assert '"passed": false' in run("audit", "runs/two", "--json").out


def test_each_seat_continues_its_own_tokens() -> None:
    turns = [replace(turn, seat=seat) for turn in HEALTHY[0].turns for seat in ("white", "black")]
    found = audit([replace(HEALTHY[0], turns=tuple(turns)), *HEALTHY[1:]])
    assert found.findings == (), "what another player read is not this one's history"
