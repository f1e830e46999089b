"""ATIF trajectories: each planted fault is found by name, and a clean log has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnwise.evals.audit.checks import Audit
from turnwise.evals.audit.logs import find_logs
from turnwise.rollouts.atif import to_atif

from ...rollouts.test_exports import ALL
from . import peers
from .peers import audited, named, unknown
from .test_store import HEALTHY


def atif(folder: Path, trajectories: list[Any]) -> Audit:
    return audited(peers.write_lines(folder / "all.jsonl", trajectories))


def test_a_clean_atif_log_has_no_finding_and_says_what_atif_does_not_record(tmp_path: Path) -> None:
    found = atif(tmp_path, [peers.trajectory(n) for n in range(4)])
    assert (found.findings, found.outcomes) == ((), {"recorded": 4})
    assert unknown(found)["zeros"] == "no episode has a reward or score in this log", "never 0 rewards"
    assert "does not say how many episodes" in unknown(found)["lost"]
    assert "tokens" not in unknown(found)


def test_atif_trajectories_in_folders_are_one_log(tmp_path: Path) -> None:
    for n in range(3):
        path = tmp_path / f"trial-{n}" / "trajectory.json"
        path.parent.mkdir()
        path.write_text(json.dumps(peers.trajectory(n)))
        path.with_name("config.json").write_text('{"not": "a trajectory"}')
    (tmp_path / "trial-2" / "trajectory.json").write_text("{")
    found = audited(tmp_path)
    assert found.outcomes == {"recorded": 2}
    assert [line.partition(": ")[0] for line in found.unreadable] == ["trial-2/trajectory.json"]
    assert set(named(found, faults=True)) == {"unreadable"}


def test_a_continuation_is_a_part_of_its_episode(tmp_path: Path) -> None:
    whole = peers.trajectory(1)
    first, second, third = whole["steps"]
    parts: dict[str, dict[str, Any]] = {
        "a.json": {"steps": [first, second], "continued_trajectory_ref": "b.json"},
        "b.json": {
            "trajectory_id": "t1-b",
            "steps": [first, {**second, "is_copied_context": True}, third],
            "extra": {"reward": 1.0},
        },
        "c.json": {"trajectory_id": "x", "continued_trajectory_ref": "c.json"},
    }
    for name, changes in parts.items():
        (tmp_path / name).write_text(json.dumps({**whole, **changes}))
    (log,) = find_logs(tmp_path)
    found = list(log.records)
    assert [(record.id, record.turns, record.value) for record in found] == [("t1", 2, 1.0), ("x", 2, None)]
    assert audited(tmp_path).findings == (), "one that names itself ends, too"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_no_score(value: float, tmp_path: Path) -> None:
    found = atif(tmp_path, [peers.trajectory(n, extra={"reward": value if n else 1.0}) for n in range(2)])
    assert found.outcomes == {"recorded": 2}
    (log,) = find_logs(tmp_path)
    assert [record.value for record in log.records] == [1.0, None]


def rewritten(n: int) -> dict[str, Any]:
    made = peers.trajectory(n)
    made["steps"][2]["metrics"] = peers.ids(8, first=100)
    return made


def without(n: int, step: int) -> dict[str, Any]:
    made = peers.trajectory(n)
    del made["steps"][step]
    return made


FAILED_ZERO = {"outcome": "infra_failed", "error": "SandboxError: gone", "success": False, "reward": 0.0}
ATIF: dict[str, tuple[list[Any], str, str, bool]] = {
    "the same id twice": ([peers.trajectory(1)], "duplicated", "1 episode id occurs more than once: t1", True),
    "a copy": ([peers.trajectory(1, trajectory_id="x")], "duplicated", "copies another under a different id", True),
    "a lost step": ([without(9, 1)], "lost", "t9 (its steps are not numbered 1 to 2)", True),
    "a lost continuation": (
        [peers.trajectory(9, continued_trajectory_ref="next.json")],
        "lost",
        "t9 (no file next.json, in which it continues)",
        True,
    ),
    "lost last steps": ([peers.trajectory(9, final_metrics={"total_steps": 7})], "lost", "t9 (3 of 7 steps)", True),
    "a zero of a failure": (
        [peers.trajectory(9, extra=FAILED_ZERO)],
        "zeros",
        "1 episode is scored although it failed (1 SandboxError); 1 counts as zero: t9",
        True,
    ),
    "rewritten tokens": ([rewritten(9)], "tokens", "1 of 5 turns does not continue the tokens before them: t9", False),
    "a line that is not JSON": (["{"], "unreadable", "1 file or line could", True),
    "a line of another form": (
        [{"schema_version": "ATIF-v1.8", "steps": 3}],
        "unreadable",
        "1 file or line could",
        True,
    ),
}


@pytest.mark.parametrize("planted", ATIF)
def test_a_fault_in_atif_is_found(planted: str, tmp_path: Path) -> None:
    added, name, words, fault = ATIF[planted]
    found = atif(tmp_path, [*(peers.trajectory(n) for n in range(4)), *added])
    assert set(named(found, faults=fault)) == {name}
    assert words in named(found, faults=fault)[name]
    assert named(found, faults=not fault) == {}
    finding = found.findings[0]
    assert finding.count == 1
    assert finding.meaning


def test_an_exported_store_has_the_findings_of_the_store(tmp_path: Path) -> None:
    found = atif(tmp_path, [to_atif(each) for each in HEALTHY])
    assert found.findings == ()
    assert found.outcomes == {"completed": 30}
    assert "without times" in unknown(found)["duplicated"], "an export has no times that could tell copies"
    forked = atif(tmp_path / "two", [to_atif(each) for each in ALL if each.episode_id != "e1"])
    assert "1 forked episode has no parent in the store: e5" in named(forked, faults=True)["lost"]
