"""Comparisons that stop when they are decided: how often they err, how soon they stop, and which runs they need."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnwise.errors import ConfigError, UsageError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("importable")

STUDY = """
title = "Small"
env = "turnwise/MazeMedium-v0"
thresholds = [0.5]
against = ["slow", "fast"]
scale = { min = 0.0, max = 1.0 }
data = { episodes = 12, skills = [1.0], weights = [1.0] }

[sequential]
pairs = [["slow", "fast"]]
looks = [5, 10, 20]

[[learner]]
name = "slow"
script = "loop"
settings = { steps = 1 }

[[learner]]
name = "fast"
script = "loop"
settings = { steps = 2 }

[[learner]]
name = "apart"
script = "loop"
settings = { steps = 3 }
"""
LOOKS = (5, 10, 15, 20)


@pytest.fixture
def sequential() -> Any:
    return importlib.import_module("study_sequential")


@pytest.fixture
def study(tmp_path: Path) -> Any:
    (tmp_path / "small.toml").write_text(STUDY)
    return importlib.import_module("study_config").load_study(str(tmp_path / "small.toml"))


def decided_after(sequential: Any, differences: np.ndarray[Any, Any], alpha: float = 0.05) -> int | None:
    for at, look in enumerate(LOOKS):
        if sequential.crossed(tuple(differences[:look].tolist()), LOOKS[: at + 1], LOOKS[-1], alpha):
            return look
    return None


def outcomes_of(study: Any, returns: dict[str, list[float | None]]) -> dict[Any, float | None]:
    plan = importlib.import_module("study_plan")
    return {
        plan.reported(study, name, s, {}): value for name, found in returns.items() for s, value in enumerate(found)
    }


@pytest.mark.shift
@pytest.mark.parametrize("kind", ["normal", "heavy", "few values"])
def test_equal_learners_are_told_apart_in_one_of_twenty_studies_at_most(sequential: Any, kind: str) -> None:
    rng, times = np.random.default_rng(0), 400
    draws = {
        "normal": lambda: rng.normal(size=20),
        "heavy": lambda: rng.standard_t(1.5, size=20) * rng.exponential(size=20),
        "few values": lambda: rng.integers(-1, 2, size=20) / 4,
    }
    wrong = sum(decided_after(sequential, draws[kind]()) is not None for _ in range(times))
    assert wrong / times < 0.05 + 3 * (0.05 * 0.95 / times) ** 0.5
    if kind == "normal":
        assert wrong / times > 0.05 - 3 * (0.05 * 0.95 / times) ** 0.5, "the error that is allowed is used"


def test_a_large_difference_needs_ten_seeds_and_a_small_one_more(sequential: Any) -> None:
    rng = np.random.default_rng(0)
    large = [decided_after(sequential, rng.normal(2.0, 1.0, 20)) for _ in range(100)]
    small = [decided_after(sequential, rng.normal(0.8, 1.0, 20)) for _ in range(100)]
    assert sum(found == 10 for found in large) > 95
    assert sum(found is not None for found in small) > 80
    assert sum(found in (15, 20) for found in small) > 30
    assert decided_after(sequential, np.full(20, 0.0)) is None, "no difference is none, however sure"


def test_five_seeds_decide_nothing_however_far_they_are_apart(sequential: Any) -> None:
    assert not sequential.crossed((9.0, 8.0, 9.5, 9.0, 7.0), (5,), 20, 0.05)
    assert sequential.crossed((9.0, 8.0, 9.5, 9.0, 7.0), (5,), 5, 0.1), "one of sixteen has this by chance"
    assert not sequential.crossed((9.0, 8.0, 9.5, 9.0, 7.0), (5,), 5, 0.06)


def test_a_comparison_asks_for_seeds_until_it_is_decided(sequential: Any, study: Any) -> None:
    def needed(returns: dict[str, list[float | None]], name: str = "fast") -> Any:
        return sequential.seeds_needed(study, name, outcomes_of(study, returns))

    steady = [0.1 + 0.01 * n for n in range(20)]
    above: list[float | None] = [value + 0.2 + 0.001 * n for n, value in enumerate(steady)]
    slow: list[float | None] = [*steady]
    assert needed({}) == 5
    assert needed({"slow": slow[:5], "fast": above[:4]}) == 5
    assert needed({"slow": slow[:5], "fast": above[:5]}) == 10
    assert needed({"slow": slow[:10], "fast": above[:10]}) == 10, "decided: no further seed"
    assert needed({"slow": slow[:10], "fast": slow[:10]}) == 20
    assert needed({"slow": slow, "fast": slow}) == 20
    assert needed({"slow": slow[:5], "fast": [*above[:4], None]}) == 5, "nothing is decided without a run that failed"
    assert needed({}, "apart") is None
    table = sequential.decision_table(study, outcomes_of(study, {"slow": slow[:10], "fast": above[:10]}))
    assert table[2:] == ["| fast and slow | fast returns more, after 10 seeds | +0.20 |"]
    table = sequential.decision_table(study, outcomes_of(study, {"slow": slow, "fast": slow}))
    assert table[2:] == ["| fast and slow | not decided | +0.00 |"]
    assert sequential.decision_table(study, {}) == []


def test_the_harness_starts_no_seed_beyond_a_decision(study: Any, tmp_path: Path) -> None:
    harness = importlib.import_module("study").Harness(study, tmp_path / "runs", tmp_path / "results")
    waiting = [(job.learner, job.seed) for job in harness.ready(["slow", "fast", "apart"], range(8))]
    assert waiting == [
        (name, seed) for name, seeds in (("slow", 5), ("fast", 5), ("apart", 8)) for seed in range(seeds)
    ]
    apart: list[float | None] = [0.1 * n for n in range(10)]
    harness.outcomes = outcomes_of(
        study, {"slow": [0.0] * 10, "fast": [0.5 + value for value in apart if value is not None]}
    )
    assert not harness.ready(["slow", "fast"], range(20))


def test_seeds_of_a_sequential_study_are_not_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.toml").write_text(STUDY)
    words = [str(tmp_path / "small.toml"), "--seeds", "5:10", "--results", str(tmp_path), "--out", str(tmp_path)]
    assert importlib.import_module("study").main(words) == 2
    assert "are decided with all seeds: leave out --seeds A:B" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "kind", "said"),
    [
        ("[5, 10, 20]", "[10, 5]", ConfigError, r"looks = \[10, 5\] are numbers of seeds in rising order"),
        ('["slow", "fast"]]', '["slow", "quick"]]', UsageError, "no learner 'quick'"),
    ],
)
def test_looks_rise_and_learners_exist(tmp_path: Path, old: str, new: str, kind: type[Exception], said: str) -> None:
    (tmp_path / "small.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(kind, match=said):
        importlib.import_module("study_config").load_study(str(tmp_path / "small.toml"))
