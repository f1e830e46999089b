"""The numbers of a study's report: intervals cover what they say, and learners are compared at equal budgets."""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnwise.evals.statistics import Estimate, student

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("importable")


@pytest.fixture
def numbers() -> Any:
    return importlib.import_module("study_statistics")


@pytest.fixture
def tables() -> Any:
    return importlib.import_module("study_episodes")


def coverage(truth: float, draw: Callable[[np.random.Generator], Estimate], times: int = 2000) -> float:
    """The share of simulated studies whose interval contains the truth."""
    rng = np.random.default_rng(0)
    found = [draw(rng) for _ in range(times)]
    assert all(one.low is not None and one.high is not None for one in found)
    return sum(one.low <= truth <= one.high for one in found) / times  # type: ignore[operator]


# -- coverage of every interval that a study prints -------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [5, 10])
def test_intervals_of_a_mean_over_seeds_cover_it(numbers: Any, seeds: int) -> None:
    assert 0.93 < coverage(3.0, lambda rng: numbers.over_seeds(rng.normal(3.0, 2.0, seeds).tolist())) < 0.97


def test_an_interval_stays_where_values_can_be(numbers: Any) -> None:
    solved = [0.0, 0.0, 0.1, 0.1, 0.45]
    free, share = numbers.over_seeds(solved), numbers.over_seeds(solved, 0, 1)
    assert free.low < 0
    assert (share.value, share.low, share.high) == (free.value, 0, free.high)
    assert numbers.over_seeds([0.5, 1.0, 1.0, 1.0, 1.0], 0, 1).high == 1
    assert numbers.over_seeds([-0.1, *solved], 0, 1).low == -0.1, "a value below the lowest one is not hidden"


@pytest.mark.parametrize("seeds", [5, 7, 10, 20])
def test_intervals_of_a_median_over_seeds_cover_it(numbers: Any, seeds: int) -> None:
    """Also of skewed episodes: order statistics do not care."""
    assert 0.93 < coverage(1.0, lambda rng: numbers.median(np.exp(rng.normal(0, 1, seeds)).tolist()), 4000) < 0.97


def test_equal_episodes_widen_the_interval_of_a_median(numbers: Any) -> None:
    """Evaluations are few, so runs arrive at the same ones: the ends belong to the interval, which then covers more."""
    covered = coverage(3.0, lambda rng: numbers.median(np.round(rng.normal(3.0, 1.2, 5)).tolist()))
    assert covered > 0.97


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("shift", [0.0, 0.7, 1.5, 2.2])
def test_intervals_of_the_probability_of_improvement_cover_it(numbers: Any, seeds: int, shift: float) -> None:
    """The bootstrap's excluded 1/2 in 27 % of studies without a difference. Equal shares have equal intervals."""
    rng = np.random.default_rng(0)
    slow, fast = rng.normal(0, 1, (20_000, seeds)), rng.normal(shift, 1, (20_000, seeds))
    shares = (fast[:, None, :] > slow[:, :, None]).sum((1, 2))
    truth, covered = statistics.NormalDist().cdf(shift / math.sqrt(2)), 0
    for first, count in zip(*np.unique(shares, return_index=True, return_counts=True)[1:], strict=True):
        found = numbers.improvement(slow[first].tolist(), fast[first].tolist())
        covered += count * (found.low <= truth <= found.high)
    assert 0.93 <= round(covered / 20_000, 2) <= 0.97


@pytest.mark.parametrize("seeds", [(5, 5), (5, 10, 10)])
def test_intervals_of_a_mean_over_tasks_cover_it(numbers: Any, seeds: tuple[int, ...]) -> None:
    def draw(rng: np.random.Generator) -> Estimate:
        found: Estimate = numbers.aggregate(
            {str(task): rng.normal(10.0 * task, 1.0 + task, size).tolist() for task, size in enumerate(seeds)}
        )
        return found

    assert 0.93 < coverage(10.0 * statistics.fmean(range(len(seeds))), draw) < 0.97


def test_a_seed_that_collapses_moves_an_interquartile_mean_by_little(numbers: Any) -> None:
    seeds = [97.0, 98.0, 99.0, 98.0, 97.0, 99.0, 98.0, 98.0, 97.0, 99.0]
    whole, one_lost = numbers.aggregate({"a": seeds}), numbers.aggregate({"a": [*seeds[:-1], 3.0]})
    assert whole.value == pytest.approx(98.0)
    assert abs(one_lost.value - whole.value) < 0.5
    assert numbers.aggregate({"a": seeds, "b": [10.0] * 10}).value == pytest.approx(54.0), "tasks count alike"


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("budget", [math.inf, 2.5])
def test_intervals_of_a_ratio_over_pairs_cover_it(numbers: Any, seeds: int, budget: float) -> None:
    """Runs that never arrive widen the interval, on the side where they bound nothing; it never covers less."""

    def reach(episodes: float) -> Any:
        return numbers.Reach(min(episodes, 100 * budget), episodes <= 100 * budget)

    def draw(rng: np.random.Generator) -> Estimate:
        start = np.exp(rng.normal(0, 0.5, seeds))  # what the clone of a pair has in common
        slow, fast = (100 * start * scale * np.exp(rng.normal(0, 0.5, seeds)) for scale in (1.5, 1.0))
        found = numbers.paired_ratio([(reach(a), reach(b)) for a, b in zip(slow, fast, strict=True)])
        return Estimate(found.least, found.low, found.high, seeds, "")

    assert 0.93 < coverage(1.5, draw) < (0.97 if budget == math.inf else 1.0)


@pytest.mark.parametrize(("solved", "tasks"), [(0.34, 25), (0.54, 25), (0.9, 25)])
def test_intervals_of_shares_over_five_clones_cover_them(numbers: Any, solved: float, tasks: int) -> None:
    """As a tree search and the differences between learners of one seed are compared."""

    def draw(rng: np.random.Generator) -> Estimate:
        clones = np.clip(rng.normal(solved, 0.03, 5), 0, 1)
        found: Estimate = numbers.over_seeds((rng.binomial(tasks, clones) / tasks).tolist(), 0, 1)
        return found

    assert 0.93 < coverage(solved, draw) < 0.97


@pytest.mark.parametrize(("tasks", "attempts", "reads", "blind"), [(8, 24, 0.16, 0.05), (25, 16, 0.37, 0.19)])
def test_intervals_of_what_reading_adds_cover_it(tasks: int, attempts: int, reads: float, blind: float) -> None:
    """Student's interval over tasks of different difficulty, whose attempts succeed or do not."""

    def draw(rng: np.random.Generator) -> Estimate:
        one, other = (rng.beta(3 * mean, 3 - 3 * mean, tasks) for mean in (reads, blind))
        return student(((rng.binomial(attempts, one) - rng.binomial(attempts, other)) / attempts).tolist())

    assert 0.93 < coverage(reads - blind, draw, 4000) < 0.97


@pytest.mark.parametrize("seeds", range(1, 5))
def test_a_few_seeds_get_a_number_and_no_interval(numbers: Any, seeds: int) -> None:
    values = [float(seed) for seed in range(seeds)]
    found = [numbers.over_seeds(values), numbers.median(values), numbers.aggregate({"a": values, "b": values})]
    found.append(numbers.improvement(values, values))
    assert [one.value for one in found] == [(seeds - 1) / 2] * 3 + [0.5]
    ratio = numbers.paired_ratio([(numbers.Reach(2.0, True), numbers.Reach(1.0, True))] * seeds)
    assert all((one.low, one.high) == (None, None) for one in [*found, ratio])
    assert str(ratio) == "2.0"


def test_an_interval_of_a_probability_has_a_width_even_if_all_seeds_agree(numbers: Any) -> None:
    found = numbers.improvement([1.0] * 5, [2.0] * 5)
    assert found.value == found.high == 1.0
    assert 0.5 < found.low < 0.7, "ten numbers are not certainty"
    assert numbers.improvement([1.0, 2.0], [2.0, 3.0]).value == (0.5 + 3) / 4, "three pairs are better, one is equal"


# -- episodes to a return ---------------------------------------------------------------------------------------------


def test_a_threshold_is_reached_by_the_mean_of_an_evaluation_and_its_neighbors(numbers: Any) -> None:
    lucky = [(0.0, -80.0), (50.0, -30.0), (100.0, -70.0), (150.0, -60.0)]
    assert numbers.smoothed(lucky)[1] == (50.0, -60.0)
    assert numbers.reach(lucky, -40.0) == numbers.Reach(150.0, False), "one lucky evaluation reaches nothing"
    steady = [(0.0, -80.0), (50.0, -45.0), (100.0, -35.0), (150.0, -30.0)]
    assert numbers.reach(steady, -40.0) == numbers.Reach(100.0, True)
    assert numbers.reach([], -5.0) == numbers.Reach(0.0, False)


def test_a_start_above_the_threshold_is_left_out(numbers: Any, tables: Any) -> None:
    above = numbers.reach([(0.0, -30.0), (50.0, -20.0)], -40.0)
    assert above is None, "0 episodes would make a ratio infinite"
    arrived = numbers.Reach(100.0, True)
    assert tables.median_cell([above, arrived]) == "100, 1 of 1, 1 started above"
    assert tables.median_cell([above]) == "–, 1 started above"
    assert tables.ratio_cell({0: arrived}, {0: above}) == tables.ratio_cell({0: above}, {0: arrived}) == "–"
    assert tables.ratio_cell({0: arrived, 1: above, 2: arrived}, {0: arrived, 1: arrived}) == "1.0", "one pair is left"


def test_bounds_are_marked_where_the_median_never_arrived(numbers: Any, tables: Any) -> None:
    arrived, late = numbers.Reach(100.0, True), numbers.Reach(500.0, False)
    assert not numbers.censored([arrived, arrived, late])
    assert numbers.censored([arrived, late, late])
    three_late, three_early = dict.fromkeys(range(3), late), dict.fromkeys(range(3), arrived)
    assert tables.ratio_cell(three_late, three_early) == "≥ 5.0"
    assert tables.ratio_cell(three_early, three_late) == "≤ 0.2"
    assert tables.ratio_cell(three_late, three_late) == "–", "two that never arrived bound nothing"
    five = [(late, arrived)] + [(numbers.Reach(200.0, True), arrived)] * 4
    assert str(numbers.paired_ratio(five)) == "2.0 (2.0 … ∞)", "one of five never arrived"
    assert str(numbers.paired_ratio([(arrived, late), *five[1:]])) == "2.0 (0.0 … 2.0)"
    assert tables.median_cell([arrived, arrived, late]).endswith("2 of 3")


@pytest.mark.parametrize(("seeds", "truth"), [(5, 500.0), (5, 700.0), (10, 560.0), (10, 700.0)])
def test_intervals_of_a_median_cover_it_where_runs_never_arrive(numbers: Any, seeds: int, truth: float) -> None:
    """With their budgets of 600 in the place of what is unknown, none of these intervals would contain 700."""

    def draw(rng: np.random.Generator) -> Estimate:
        episodes = truth * np.exp(rng.normal(0, 0.3, seeds))
        found: Estimate = numbers.median_reach([numbers.Reach(min(one, 600.0), one <= 600.0) for one in episodes])
        return found

    assert coverage(truth, draw) > 0.93


def test_a_median_between_a_run_that_arrived_and_one_that_did_not_is_a_bound(numbers: Any, tables: Any) -> None:
    arrived, late = numbers.Reach(510.0, True), numbers.Reach(600.0, False)
    assert numbers.censored([arrived] * 5 + [late] * 5)
    assert tables.median_cell([arrived] * 5 + [late] * 5) == "≥ 555 (510 … ∞), 5 of 10"
    at_the_end = numbers.Reach(600.0, True)
    assert not numbers.censored([arrived, at_the_end, late]), "the run in the middle arrived"


# -- one start --------------------------------------------------------------------------------------------------------


def test_pairs_that_started_from_two_clones_are_named(tmp_path: Path) -> None:
    """A clone that was trained again on another machine has other weights, so a seed is not one start."""
    clones, config = importlib.import_module("study_clones"), importlib.import_module("study_config")
    one = {"seed": 0, "clone": "a", "curve": [[0.0, 0.2], [25.0, 0.3]]}
    assert not clones.apart(one, one | {"curve": [[0.0, 0.4]]}), "the digest decides"
    assert clones.apart(one, one | {"clone": "b"})
    older = {"seed": 0, "curve": [[0.0, 0.2], [25.0, 0.3]]}
    assert clones.apart(older, older | {"curve": [[0.0, 0.4], [30.0, 0.5]]})
    assert not clones.apart(older, older | {"curve": [[0.0, 0.2], [30.0, 0.5]]})
    assert not clones.apart(older, older | {"curve": [[30.0, 0.5]]})
    study = config.load_study("archer-house")
    ran = [
        replace(row(name, 240.0, [], 2), lines=tuple({"seed": seed, "clone": mark[seed]} for seed in (0, 1)))
        for name, mark in (("loop", "ab"), ("ppo", "ab"), ("archer-robust", "ac"))
    ]
    assert clones.apart_list(study, ran[:2]) == []
    assert clones.apart_list(study, ran) == ["- loop : archer-robust: 1 of 2", "- ppo : archer-robust: 1 of 2"]
    assert clones.weights_digest(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(b"1")
    first = clones.weights_digest(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"2")
    assert clones.weights_digest(tmp_path) != first


# -- equal budgets ----------------------------------------------------------------------------------------------------


def row(name: str, episodes: float, trace: list[tuple[float, float]], seeds: int = 5) -> Any:
    rows = importlib.import_module("study_rows")
    lines = tuple({"episodes": episodes, "seed": seed} for seed in range(seeds))
    return rows.Row(name, None, lines, (trace,) * seeds, (None,) * seeds, ((),) * seeds, 0)


def test_unequal_budgets_are_named_and_compared_at_the_smallest(tables: Any) -> None:
    slow = row("ppo", 1920.0, [(0.0, -9.0), (640.0, -6.0), (1280.0, -3.0), (1920.0, -3.0)])
    fast = row("archer", 1280.0, [(0.0, -9.0), (640.0, -8.0), (1280.0, -7.0)])
    offline = row("bc", 0.0, [(0.0, -9.0)])
    config = importlib.import_module("study_config")
    study, bounded = config.load_study("wordle-read"), config.load_study("archer-house")
    text = "\n".join(tables.budget_table(study, [offline, slow, fast]))
    assert "Unequal budgets" in text
    assert "| ppo | 1,920 | -4.50 (-4.50 … -4.50) | 960 |" in text, "the mean of the evaluations at 640 and 1,280"
    assert "| archer | 1,280 | -7.50 (-7.50 … -7.50) | 960 |" in text
    sparse = row("ppo", 1920.0, [(0.0, -9.0), (900.0, -6.0), (1800.0, -3.0)])
    text = "\n".join(tables.budget_table(study, [sparse, fast]))
    assert "| ppo | 1,920 | -7.50 (-7.50 … -7.50) | 450 |" in text, "measured earlier than archer, at 960"
    assert "bc" not in text
    assert tables.budget_table(study, [offline, slow, row("loop", 1900.0, slow.traces[0])]) == []
    uneven = tuple(((0.0, share), (60.0, share), (120.0, share)) for share in (0.2, 1.0, 1.0, 1.0, 1.0))
    shares = [replace(row("ppo", 240.0, []), traces=uneven), row("loop", 120.0, [(120.0, 0.5)])]
    assert "| ppo | 240 | 0.84 (0.40 … 1.00) | 90 |" in tables.budget_table(bounded, shares), "no share is above 1"


def test_seeds_that_end_below_their_own_clone_are_counted() -> None:
    report, config = importlib.import_module("study_report"), importlib.import_module("study_config")
    study = config.load_study("archer-house")

    def ended(name: str, returns: list[float]) -> Any:
        lines = tuple({"seed": seed, "return": value} for seed, value in enumerate(returns))
        return replace(row(name, 240.0, [], len(returns)), lines=lines)

    clones = ended("bc", [0.2] * 10)
    fine, lost = ended("loop", [0.9] * 10), ended("archer-robust", [0.9] * 9 + [0.03])
    assert report.collapse_list(study, [clones, fine, lost]) == ["- archer-robust: 1 of 10 (2% to 40%)"]
    assert report.collapse_list(study, [clones, fine]) == []
    assert report.failed_line([clones, fine]) == ""
    broken = replace(ended("ppo", [0.9] * 8), failed=2)
    assert report.collapse_list(study, [clones, broken]) == ["- ppo: 2 of 10 (6% to 51%), of which 2 failed"]
    assert report.failed_line([clones, broken]).endswith("interval or ratio: ppo 2 of 10.")


def test_the_distance_of_evaluations_stands_beside_a_learner(tables: Any) -> None:
    config = importlib.import_module("study_config")
    coarse = row("loop", 225.0, [(0.0, 0.2), (75.0, 0.4), (150.0, 0.9), (225.0, 0.9)])
    fine = row("archer-demos", 60.0, [(0.0, 0.2), (30.0, 0.9), (60.0, 0.9)])
    text = "\n".join(tables.reach_table(config.load_study("archer-medium"), [coarse, fine]))
    assert "| loop, every 75 |" in text
    assert "| archer-demos, every 30 |" in text


def test_what_was_measured_is_printed_and_not_what_was_asked_for() -> None:
    report, config = importlib.import_module("study_report"), importlib.import_module("study_config")
    study = config.load_study("wordle-read")
    played = row("bc", 0.0, [])
    lines = ({"measured_episodes": 186, "measured_tasks": 62},)
    said = report.measured(study, [replace(played, lines=lines)])
    assert said == "Each run is measured in 186 episodes of 62 tasks (248 were asked for)."
    older = report.measured(study, [replace(played, lines=({"measured_episodes": 248},))])
    assert older == "Each run is measured in 248 episodes."
