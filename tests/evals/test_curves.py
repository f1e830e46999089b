"""Curves from metrics files: one seed, several seeds, and files that a kill has cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from turnwise.errors import UsageError
from turnwise.evals.curves import curve, read_run
from turnwise.evals.statistics import wilson


def write(folder: Path, records: list[dict[str, object]], tail: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records) + tail)
    return folder


def records(offset: float = 0.0) -> list[dict[str, object]]:
    return [
        {"step": 0, "eval/success": 0.1 + offset, "eval/episodes": 50},
        {"step": 1, "episodes": 72, "success": 0.2 + offset, "return": -5.0},
        {
            "step": 2,
            "episodes": 70,
            "success": 0.4 + offset,
            "return": -4.0,
            "eval/success": 0.5 + offset,
            "eval/episodes": 50,
        },
    ]


def test_episodes_accumulate_and_one_seed_has_wilsons_interval(tmp_path: Path) -> None:
    run = read_run(write(tmp_path / "seed-0", records()))
    found = curve([run], "eval/success")
    assert found is not None
    assert [(point.step, point.episodes) for point in found.points] == [(0, 0.0), (2, 142.0)]
    assert [point.estimate.value for point in found.points] == pytest.approx([0.1, 0.5])
    expected = wilson(25, 50)
    assert (found.points[1].estimate.low, found.points[1].estimate.high) == pytest.approx((expected.low, expected.high))
    assert found.held_out


def test_one_seed_of_a_return_has_no_interval(tmp_path: Path) -> None:
    found = curve([read_run(write(tmp_path / "seed-0", records()))], "return")
    assert found is not None
    assert [point.estimate.low for point in found.points] == [None, None]


def test_several_seeds_have_students_interval_within_bounds(tmp_path: Path) -> None:
    runs = [read_run(write(tmp_path / f"seed-{i}", records(i / 10))) for i in range(3)]
    found = curve(runs, "eval/success")
    assert found is not None
    assert found.seeds == 3
    first, last = found.points[0].estimate, found.points[1].estimate
    assert last.value == pytest.approx(0.6)
    assert (last.low, last.high) == pytest.approx(
        scipy.stats.t.interval(0.95, 2, 0.6, scipy.stats.sem([0.5, 0.6, 0.7]))
    )
    assert first.low == 0.0, "a success rate is never shown below zero"


def test_only_steps_that_every_seed_has_are_averaged(tmp_path: Path) -> None:
    """A seed that is still running must not turn the end of the curve into an average of the others."""
    runs = [
        read_run(write(tmp_path / "a", records())),
        read_run(write(tmp_path / "b", records()[:2])),
    ]
    found = curve(runs, "success")
    assert found is not None
    assert [point.step for point in found.points] == [1]


def test_metrics_that_are_not_there_or_not_finite_make_no_curve(tmp_path: Path) -> None:
    run = read_run(write(tmp_path / "a", [{"step": 1, "entropy": None}, {"step": 2, "entropy": None}]))
    assert curve([run], "entropy") is None
    assert curve([run], "nothing") is None
    assert curve([], "success") is None


def test_a_line_cut_by_a_kill_is_dropped_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    cut = write(tmp_path / "cut", records(), tail='{"step": 3, "succ')
    assert len(read_run(cut).records) == 3
    write(tmp_path / "bad", records())
    bad = tmp_path / "bad" / "metrics.jsonl"
    bad.write_text("garbage\n" + bad.read_text())
    with pytest.raises(UsageError, match=r"line 1 is not a JSON object"):
        read_run(bad)
    with pytest.raises(UsageError, match="cannot read metrics"):
        read_run(tmp_path / "nothing")


def test_what_is_logged_for_a_step_in_several_lines_is_one_record(tmp_path: Path) -> None:
    """Training scripts log a step and then its evaluation; a number that is logged again replaces the older one."""
    run = read_run(write(tmp_path / "a", [*records(), {"step": 2, "success": 0.45}, {"step": 1, "eval/success": 0.3}]))
    trained, held_out = curve([run], "success"), curve([run], "eval/success")
    assert trained is not None
    assert held_out is not None
    assert [(point.step, point.episodes) for point in trained.points] == [(1, 72.0), (2, 142.0)]
    assert trained.points[-1].estimate.value == pytest.approx(0.45)
    assert [point.episodes for point in held_out.points] == [0.0, 72.0, 142.0]


def test_the_number_of_evaluation_episodes_may_stand_in_the_settings(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [{"step": 0, "eval/success": 0.5}])
    (folder / "config.json").write_text(json.dumps({"config": {"eval": {"episodes": 20}}}))
    found = curve([read_run(folder)], "eval/success")
    assert found is not None
    assert found.points[0].estimate.n == 20
    assert found.where == "held-out tasks"


def test_seeds_may_play_in_different_places_but_not_different_numbers_of_episodes(tmp_path: Path) -> None:
    """The table ``rollouts`` says where episodes are played; as a number, it had another meaning in release 0.1."""

    def kind(**settings: Any) -> str:
        folder = write(tmp_path / "a", [{"step": 0}])
        (folder / "config.json").write_text(json.dumps({"config": settings}))
        return read_run(folder).kind

    assert kind(rollouts={"engine": "ray"}, k=2) == kind(rollouts={"engine": "local"}, group_size=2) == kind(k=2)
    assert kind(rollouts=3) == kind(episodes_per_step=3) != kind(rollouts=4)


def test_evaluations_on_training_tasks_are_not_called_held_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [{"step": 0, "eval/success": 0.5}])
    (folder / "config.json").write_text(json.dumps({"config": {"eval": {"split": "train"}}}))
    found = curve([read_run(folder)], "eval/success")
    assert found is not None
    assert found.where == "training tasks, in evaluations"
