"""Traces of verifiers: each planted fault is found by name, and a clean log has none."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from turnwise.evals.audit.checks import Audit

from . import peers
from .peers import audited, named, unknown


def traces(folder: Path, episodes: list[Any], attempts: int | None = 2, limit: int | None = None) -> Audit:
    if attempts is not None:
        peers.write_plan(folder, attempts, limit)
    return audited(peers.write_lines(folder / "traces.jsonl", episodes).parent)


CLEAN = [peers.episode(n) for n in range(8)]


def test_a_clean_log_of_verifiers_has_no_finding(tmp_path: Path) -> None:
    found = traces(tmp_path, CLEAN, limit=4)
    assert (found.findings, found.unknown, found.outcomes) == ((), (), {"scored": 8})


def test_a_retried_error_and_a_missing_score_are_no_zeros(tmp_path: Path) -> None:
    error = {"type": "SandboxError", "message": "it died"}
    retried = peers.episode(0, {"errors": [error]}, errors=[error])
    broken = peers.episode(1, {"ok": False, "errors": [error], "rewards": {}}, ok=False)
    nobody = peers.episode(2, traces=[], ok=False, errors=[error])
    found = traces(tmp_path, [retried, broken, nobody, *CLEAN[3:]])
    assert found.findings == ()
    assert found.outcomes == {"scored": 6, "failed": 2}


@pytest.mark.parametrize("score", [float("nan"), float("-inf")])
def test_a_reward_that_is_no_number_is_no_score(score: float, tmp_path: Path) -> None:
    odd = peers.episode(0, {"rewards": {"solved": {"score": score, "weight": 1.0}}})
    assert traces(tmp_path, [odd, *CLEAN[1:]]).outcomes == {"scored": 7, "unscored": 1}


def branch(same: bool) -> list[dict[str, Any]]:
    """The second turn begins a path of its own, with the same messages or with a summary."""
    made = deepcopy(peers.nodes(9))
    text = made[1]["message"] if same else peers.message("user", "Until now: move 9.")
    again = [made[0] | {"token_ids": [0, 99]}, made[1] | {"message": text, "sampled": False, "parent": 2}]
    after = [made[2] | {"parent": 3}, made[3] | {"parent": 4}]
    return [*made[:2], *again, *after]


ZERO = {"solved": {"score": 0.0, "weight": 1.0}}
ERROR = [{"type": "ProviderError", "message": "502"}]
VERIFIERS: dict[str, tuple[list[Any], str, str, bool]] = {
    "a lost episode": (CLEAN[1:], "lost", "1 of 8 planned episodes is not in the log: 1 of task 0 (key0)", True),
    "a record twice": ([*CLEAN, CLEAN[3]], "duplicated", "1 episode id occurs more than once: ep3", True),
    "a copy": ([*CLEAN, CLEAN[3] | {"id": "other"}], "duplicated", "times: other = ep3", True),
    "a zero of an error": (
        [*CLEAN[:7], peers.episode(7, {"ok": False, "errors": ERROR, "rewards": ZERO}, ok=False)],
        "zeros",
        "although it failed (1 ProviderError); 1 counts as zero: ep7",
        True,
    ),
    "a zero of a time-out": (
        [*CLEAN[:7], peers.episode(7, {"is_timeout": True, "rewards": ZERO})],
        "zeros",
        "although it failed (1 time-out); 1 counts as zero: ep7",
        True,
    ),
    "text that was tokenized again": (
        [*CLEAN[:7], peers.episode(7, {"nodes": branch(same=True)})],
        "tokens",
        "1 of 8 turns does not continue the tokens before them; 1 of them has the same messages",
        False,
    ),
    "a history that was rewritten": (
        [*CLEAN[:7], peers.episode(7, {"nodes": branch(same=False)})],
        "tokens",
        "1 of 8 turns does not continue the tokens before them: ep7",
        False,
    ),
    "a torn line": ([*CLEAN, '{"id": "ep9", "task"'], "unreadable", "1 file or line could", True),
}


@pytest.mark.parametrize("planted", VERIFIERS)
def test_a_fault_in_traces_is_found(planted: str, tmp_path: Path) -> None:
    episodes, name, words, fault = VERIFIERS[planted]
    found = traces(tmp_path, episodes)
    assert set(named(found, faults=fault)) == {name}
    assert words in named(found, faults=fault)[name]
    assert named(found, faults=not fault) == {}


def test_tasks_without_any_episode_are_noted_where_the_plan_is_an_upper_limit(tmp_path: Path) -> None:
    found = traces(tmp_path, CLEAN, limit=6)
    assert found.passed
    assert "selects up to 6 tasks, and 2 of them have no episode" in named(found, faults=False)["lost"]


def test_without_a_plan_a_task_with_fewer_attempts_is_noted(tmp_path: Path) -> None:
    found = traces(tmp_path, CLEAN[1:], attempts=None)
    assert found.passed
    assert "1 task has fewer attempts than the usual 2: 0 (key0) (1)" in named(found, faults=False)["lost"]


def test_token_ids_that_a_log_lacks_are_not_recorded(tmp_path: Path) -> None:
    bare = [deepcopy(each) for each in CLEAN]
    for each in bare:
        for node in each["traces"][0]["nodes"]:
            del node["token_ids"]
    assert unknown(traces(tmp_path, bare)) == {"tokens": "no token ids in this log"}


def test_traces_of_several_agents_are_records_of_one_episode(tmp_path: Path) -> None:
    two = [peers.episode(n, traces=[peers.trace(n), peers.trace(n + 50, agent={"name": "judge"})]) for n in range(8)]
    found = traces(tmp_path, two)
    assert (found.findings, found.outcomes) == ((), {"scored": 16})


def timed(n: int, seconds: float, failed: bool) -> dict[str, Any]:
    timing = {"start": 1e9, "agent": {"start": 1e9, "end": 1e9 + seconds}}
    changes: dict[str, Any] = {"ok": False, "errors": ERROR, "rewards": {}} if failed else {}
    return peers.episode(2 * n, {"timing": timing, **changes}, ok=not failed)


def test_failures_of_slow_episodes_are_a_bias_with_an_interval(tmp_path: Path) -> None:
    slow = [timed(n, 50 + n, n % 2 == 0) for n in range(40)]
    fast = [timed(100 + n, 1 + n / 40, False) for n in range(40)]
    text = named(traces(tmp_path / "a", [*slow, *fast], 1), faults=False)["bias"]
    assert "50.0% of slow and 0.0% of fast ones failed (difference +50 points, 95 % interval +33 to +65)" in text
    alike = [timed(n, 1 + n, n % 4 < 2) for n in range(80)]
    assert traces(tmp_path / "b", alike, 1).findings == (), "failures that are as fast as the others"
    few = traces(tmp_path / "c", [*slow[:10], *fast], 1)
    assert "by duration: 5 failed and 45 scored episodes; the test needs 10 of each" in [e.why for e in few.unknown]


def attempt(n: int, turns: int, failed: bool) -> dict[str, Any]:
    """Attempt ``n`` at task ``n // 2``; a failure breaks off after its first turn."""
    graph = [each | {"timestamp": 1e9 + 100 * n + index} for index, each in enumerate(turns * peers.nodes(n)[:2])]
    for index, node in enumerate(graph):
        node["parent"] = index - 1 if index else None
    changes = {"ok": False, "errors": ERROR, "rewards": {}, "nodes": graph[:2]} if failed else {"nodes": graph}
    return peers.episode(n, changes, ok=not failed)


def test_failures_at_long_tasks_are_a_bias_although_failed_episodes_are_short(tmp_path: Path) -> None:
    long = [attempt(n, 9, failed=n % 2 == 1) for n in range(40)]
    short = [attempt(100 + n, 2, failed=False) for n in range(60)]
    text = named(traces(tmp_path, [*long, *short]), faults=False)["bias"]
    assert "by length of the task, 50.0% of long and 0.0% of short ones failed (difference +50 points" in text
