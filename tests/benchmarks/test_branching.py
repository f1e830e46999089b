"""The comparison of branching with plain sampling: its rules are pure, and no run is made twice."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


def curve(bench: Any, side: str, returns: list[float], per: float = 100.0, seed: int = 0) -> Any:
    calls = tuple(per * number for number in range(len(returns)))
    return bench.Curve(side, seed, calls, tuple(returns), 0.0, 0.0, 0.0)


def test_calls_are_counted_until_the_target_is_reached(bench: Any) -> None:
    plain = curve(bench, "grpo", [-10, -8, -5, -2, -2, -2])
    quick = curve(bench, "arpo", [-10, -2.5, -9, -1, -1, -1], per=60.0)
    found = bench.against(quick, plain, 0.9)  # the target: -10 + 0.9 * 8 = -2.8
    assert found.ratio == pytest.approx(60 / 300)
    assert found.arrived
    assert found.spent == pytest.approx(0.6)
    assert found.final == pytest.approx(1.0)


def test_a_side_that_does_not_arrive_counts_with_all_it_spent_and_is_named(bench: Any) -> None:
    plain = curve(bench, "grpo", [-10, -2, -2, -2])
    slow = curve(bench, "arpo", [-10, -9, -9, -9], per=50.0)
    found = bench.against(slow, plain, 1.0)
    assert (found.ratio, found.arrived) == (pytest.approx(150 / 100), False)


def test_where_plain_sampling_gains_nothing_there_is_no_target(bench: Any) -> None:
    assert bench.against(curve(bench, "arpo", [0, 1, 1]), curve(bench, "grpo", [0, -1, -1, -1]), 0.9) is None


def test_ratios_are_averaged_by_their_logarithms(bench: Any) -> None:
    found = bench.geometric([0.5, 2.0])
    assert found.value == pytest.approx(1.0)
    assert found.low == pytest.approx(1 / found.high)
    assert math.log(found.high) == pytest.approx(12.706 * math.log(2), rel=1e-3), "Student's t with one degree"


def test_costs_add_up_over_the_steps_before_an_evaluation(bench: Any, tmp_path: Path) -> None:
    lines = [
        {"step": 0, "eval/return": -9.0},
        {"step": 1, "cost/steps": 10.0, "cost/sampled": 5.0, "cost/branches": 2.0},
        {"step": 2, "cost/steps": 20.0, "cost/sampled": 5.0},
        {"step": 2, "eval/return": -3.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = bench.curve_of("arpo", 3, tmp_path)
    assert (found.calls, found.returns) == ((0.0, 30.0), (-9.0, -3.0))
    assert (found.sampled, found.branches) == (10.0, 2.0)


@pytest.mark.slow
@pytest.mark.shift
def test_it_goes_on_where_it_stopped_and_only_with_the_same_settings(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {
        "env": "turnwise/MazeU-v0",
        "turns": 8,
        "steps": 2,
        "tasks_per_step": 2,
        "group_size": 2,
        "every": 1,
        "episodes": 4,
        "cloned": 5,
    }
    words = ["--out", str(tmp_path / "kept"), *(f"--{name.replace('_', '-')}={value}" for name, value in small.items())]
    bench.main([*words, "--seeds", "1"])
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    bench.main([*words, "--seeds", "1", "--json", str(tmp_path / "found.json")])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == made, "nothing is made twice"
    found = json.loads((tmp_path / "found.json").read_text())
    assert [each["side"] for each in found["curves"]] == ["grpo", "arpo"]
    assert all(len(each["returns"]) == 3 for each in found["curves"])
    with pytest.raises(SystemExit):
        bench.main([*words, "--seeds", "1", "--lr", "1e-2"])
    assert "was started with lr = 0.0005, not 0.01" in capsys.readouterr().err
