"""The rank of ArCHer's critic in a study: measured beside a run, counted apart, and in the tables of the report."""

from __future__ import annotations

import asyncio
import importlib
import math
import time
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import UsageError
from turnwise.evals.curves import Run
from turnwise.trainers import archer

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)

STUDY = """
title = "Small"
env = "turnwise/MazeU-v0"
thresholds = [0.5]
against = ["ppo", "loop", "archer"]
scale = { min = 0.0, max = 1.0 }
data = { episodes = 12, skills = [0.5], weights = [1.0] }

[rank]
every = 4
states = 9

[[learner]]
name = "ppo"
script = "on_policy"
config = "ppo-maze"

[[learner]]
name = "loop"
script = "loop"
config = "loop-maze"

[[learner]]
name = "archer"
script = "archer"
config = "archer-maze-fo"

[[learner]]
name = "noise"
like = "archer"
control = "noise"
settings = { warmup = 1 }
"""
RECORDS = (
    {"step": 0, "eval/return": 0.1},
    {"step": 1, "episodes": 10.0},
    {"step": 2, "episodes": 110.0, "critic/rank_episodes": 100.0, "critic/rank": 0.2, "critic/rank_error": 0.1}
    | {"critic/rank_states": 20.0, "eval/return": 0.3},
    {"step": 3, "episodes": 110.0, "critic/rank_episodes": 100.0, "critic/rank": float("nan")},
    {"step": 4, "episodes": 110.0, "critic/rank_episodes": 100.0, "critic/rank": 0.6, "critic/rank_error": 0.1}
    | {"critic/rank_states": 8.0, "eval/return": 0.5},
)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def ranks() -> Any:
    return importlib.import_module("study_ranks")


@pytest.fixture
def study(tmp_path: Path) -> Any:
    (tmp_path / "small.toml").write_text(STUDY)
    return importlib.import_module("study_config").load_study(str(tmp_path / "small.toml"))


def rows(ranks: Any, study: Any, found: dict[str, list[float]]) -> list[Any]:
    """Rows of five seeds with these ranks along the run of each."""
    kind = importlib.import_module("study_rows").Row
    line = {"return": 0.5, "success": 0.5, "episodes": 40.0, "cpu_seconds_training": 9.0}
    lines = tuple(line | {"seed": seed} for seed in range(5))
    return [
        kind(
            learner.name,
            None,
            lines,
            (((0.0, 0.1), (20.0, 0.4), (40.0, 0.9)),) * 5,
            (None,) * 5,
            (tuple(ranks.Rank(20.0 * n, mean, 0.1, 9) for n, mean in enumerate(found.get(learner.name, ()))),) * 5,
            0,
        )
        for learner in study.learner
    ]


def test_episodes_of_a_measurement_are_not_those_of_the_run(ranks: Any) -> None:
    run = ranks.learned(Run("run", RECORDS))
    assert [record.get("episodes", 0) for record in run.records] == [0, 10, 10, 10, 10]
    curve = importlib.import_module("study_rows").trace_of(run)
    assert curve == [(0, 0.1), (20, 0.3), (40, 0.5)]
    assert ranks.ranks_of(run) == [ranks.Rank(10, 0.2, 0.1, 20), ranks.Rank(30, 0.6, 0.1, 8)], "none without a state"
    assert ranks.mean_rank(ranks.ranks_of(run)) == pytest.approx((20 * 0.2 + 8 * 0.6) / 28), "states count alike"
    assert ranks.mean_error(ranks.ranks_of(run)) == pytest.approx(math.hypot(2, 0.8) / 28)
    assert ranks.mean_rank([]) is None


def test_the_gate_of_a_measurement_only_watches(ranks: Any, study: Any) -> None:
    plan = importlib.import_module("study_plan")
    words = {
        name: plan.words(study, plan.Job(name, "d", None, 0), {}, root=Path("root")) for name in ("archer", "noise")
    }
    settings = importlib.import_module("turnwise.trainers.archer_settings")
    config = importlib.import_module("turnwise.config").load_config(
        settings.ArcherConfig, words["archer"][1], [*words["archer"][2:], 'model="m"']
    )
    gate = config.critic_gate
    assert (gate.limit, gate.otherwise, gate.watch, gate.every, gate.states) == (config.warmup, "start", True, 4, 9)
    closed = importlib.import_module("turnwise.trainers.critics.gate").CriticGate(gate, first=config.warmup)
    closed.see(config.warmup, None)
    assert closed.open, "whatever it finds, the actor begins after the warm-up"
    assert "critic_gate.limit=1" in words["noise"]
    assert not any("critic_gate" in word for word in plan.words(study, plan.Job("ppo", "d", None, 0), {}, root=Path()))


def test_a_critic_without_a_warm_up_cannot_be_measured(ranks: Any) -> None:
    with pytest.raises(UsageError, match="set warmup to 1 or more"):
        ranks.RankConfig().gate({"warmup": 0}, None)


def test_only_learners_with_a_critic_are_other_runs_when_it_is_measured(study: Any) -> None:
    plan = importlib.import_module("study_plan")
    without = study.model_copy(update={"rank": None})
    same = {one.name: plan.digest(study, one.name) == plan.digest(without, one.name) for one in study.learner}
    assert same == {"ppo": True, "loop": True, "archer": False, "noise": False}


def test_the_tables_have_the_rank_of_each_critic_and_0_for_noise(ranks: Any, study: Any) -> None:
    report = importlib.import_module("study_report")
    found = rows(ranks, study, {"archer": [0.2, 0.4, 0.9], "noise": [0.3, 0.3]})
    table = report.score_table(study, found, 0.4)
    assert table[0].endswith(" CPU s | `critic/rank` |")
    assert [line.split("|")[-2].strip() for line in table[2:]] == ["–", "–", "0.50 (0.50 … 0.50)", "0 (noise)"]
    assert len({line.count("|") for line in table}) == 1, "all lines have the same columns"
    (line,) = report.rank_table(study, found)[2:]
    assert line == "| archer | 0.20 ± 0.04 (45 states), after 0 episodes | 0.90 ± 0.04 (45 states), after 40 episodes |"
    plain = rows(ranks, study, {})
    assert report.score_table(study, plain, 0.4)[0].endswith(" CPU s |")
    assert report.rank_table(study, plain) == []


def test_intervals_end_at_bounds_that_no_return_can_cross(study: Any) -> None:
    report, returns = importlib.import_module("study_report"), [0.1, 0.9, 1.0, 1.0, 1.0]
    assert report._returns(study, returns, 0.5) == "80.0 (31.1 … 128.9) | 0.80 (0.31 … 1.29)"
    hard = study.model_copy(update={"scale": study.scale.model_copy(update={"hard": True})})
    assert report._returns(hard, returns, 0.5) == "80.0 (31.1 … 100.0) | 0.80 (0.31 … 1.00)"


def test_every_slower_learner_is_compared_with_the_last(ranks: Any, study: Any) -> None:
    found = rows(ranks, study, {})
    tables, report = importlib.import_module("study_episodes"), importlib.import_module("study_report")
    assert tables.reach_table(study, found)[-2:] == [
        "| **ppo : archer** | 1.0 (1.0 … 1.0) |",
        "| **loop : archer** | 1.0 (1.0 … 1.0) |",
    ]
    both = study.model_copy(update={"also": ("noise",)})
    assert tables.reach_table(both, found)[-1] == "| **loop : noise** | 1.0 (1.0 … 1.0) |"
    paired = study.model_copy(update={"pairs": (("ppo", "loop"),)})
    assert tables.reach_table(paired, found)[-1] == "| **ppo : loop** | 1.0 (1.0 … 1.0) |", "without archer"
    assert "A seed of noise ends above a seed of ppo with probability 0.50" in report.improvement_line(both, found)
    said = report.improvement_line(study, found)
    assert "of archer ends above a seed of ppo with probability 0.50" in said
    assert "and above a seed of loop with probability 0.50" in said


def test_the_time_of_measurements_is_kept_apart(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def measure(*args: Any) -> Any:
        began = time.process_time()
        while time.process_time() < began + 0.02:
            pass
        return args

    monkeypatch.setattr(archer, "measure", measure)
    timer = ranks.Timer()
    timer.start()
    assert asyncio.run(archer.measure(1, 2)) == (1, 2)  # type: ignore[arg-type,call-arg,comparison-overlap,attr-defined]
    assert timer.seconds >= 0.02
