"""The comparison of distances: planted differences are found, and the message names where."""

from __future__ import annotations

import asyncio
import copy
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.rollouts.pool import EnvPool

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
ID = "turnwise/Maze-v0"
TASKS = [tw.TaskSpec("maze", "rooms", seed=seed) for seed in range(2)]
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def run() -> Any:
    """Two stored episodes and a forked one, as one distance returns them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        distances = importlib.import_module("distances")

        async def played() -> Any:
            script = await distances.written(ID, TASKS)
            return await distances.played(EnvPool.of(ID), TASKS, script, named=True, forks=True)

        return asyncio.run(played())


def message(row: dict[str, Any]) -> dict[str, Any]:
    return row["turns"][2]["observation"][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda row: row["turns"][1].update(reward=-1), "turn 1, field reward: -1 over there, -1.0 in process"),
        (lambda row: row["turns"][0].update(reward=float("nan")), "turn 0, field reward: nan over there"),
        (lambda row: row["turns"][-1].update(terminated=False), "field terminated: False over there, True in process"),
        (lambda row: row["turns"][1].update(truncated=True), "turn 1, field truncated"),
        (lambda row: row["turns"][1].update(info="{} "), "turn 1, field info"),
        (lambda row: row["turns"][1].update(obs_key=None), "turn 1, field obs_key: None over there"),
        (lambda row: message(row)["parts"][0].update(text="You"), "turn 2, field observation.0.parts.0.text: 'You'"),
        (lambda row: message(row).update(role="tool"), "turn 2, field observation.0.role: 'tool'"),
        (lambda row: row["turns"].pop(), "field existence: 'nothing' over there"),
        (lambda row: row["score"].update(success=False), "seed 1, field score.success: False over there"),
        (lambda row: row.pop("outcome"), "seed 1, field outcome: 'nothing' over there"),
        (lambda row: row.update(attempts=2), "seed 1, field attempts: 2 over there, 1 in process"),
    ],
)
def test_a_planted_difference_is_named(bench: Any, run: Any, change: Change, where: str) -> None:
    found = copy.deepcopy(run.rows)
    change(found[1])
    (line,) = bench.differences(ID, "over there", run.rows, found)
    assert line.startswith(f"{ID} (train, level 1), seed 1")
    assert where in line


def test_a_fork_that_differs_is_named(bench: Any, run: Any) -> None:
    (row,) = found = copy.deepcopy(run.forked)
    row["turns"][-1]["info"]["turn"] = "17"
    (line,) = bench.differences(ID, "over there", run.forked, found)
    assert f"seed 0, turn {len(row['turns']) - 1}, field info.turn: '17' over there" in line


def test_equal_episodes_and_other_times_are_no_difference(bench: Any, run: Any) -> None:
    assert not list(bench.differences(ID, "over there", run.rows, copy.deepcopy(run.rows)))
    assert all("seconds" not in row and "seconds_env" not in row["turns"][0] for row in run.rows)
    (missing,) = bench.differences(ID, "over there", run.rows, run.rows[:1])
    assert missing == f"{ID}: 1 episodes over there, 2 in process"
