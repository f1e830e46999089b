"""Every interval of an evaluation covers what it says, 95 % of the time: simulated, or summed over a binomial."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from turnwise.evals.statistics import (
    FEWEST_TASKS,
    Estimate,
    mean_over_tasks,
    mean_return,
    proportion,
    square_and_add,
    student,
    wilson,
)

from ..shifts import core_sample

Draw = Callable[[np.random.Generator], Estimate]
WITHIN = 0.93, 0.97
"""Coverage of an interval of 95 %. Over 1,500 draws, a standard error is 0.6 points."""


def coverage(truth: float, draw: Draw, times: int = 1500) -> float:
    """Return the share of simulated runs whose interval contains the truth."""
    rng = np.random.default_rng(7)
    found = [draw(rng) for _ in range(times)]
    return float(
        np.mean([one.low is not None and one.high is not None and one.low <= truth <= one.high for one in found])
    )


def rates(rng: np.random.Generator, tasks: int, attempts: int, mean: float, alike: float) -> list[bool]:
    """Return attempts at beta-binomial tasks, with an intra-task correlation of ``alike``."""
    scale = 1 / alike - 1 if alike else math.inf
    each = rng.beta(mean * scale, (1 - mean) * scale, tasks) if alike else np.full(tasks, mean)
    drawn: list[bool] = (rng.random((tasks, attempts)) < each[:, None]).ravel().tolist()
    return drawn


def names(tasks: int, attempts: int) -> list[int]:
    return [task for task in range(tasks) for _ in range(attempts)]


# -- proportions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 8, 12, 25, 100])
def test_wilsons_intervals_cover_a_rate_on_average(n: int) -> None:
    """No simulation: coverage is a sum over the binomial. It jumps with the rate, so it is in the band on average."""
    ends = np.array([(one.low, one.high) for one in (wilson(count, n) for count in range(n + 1))], dtype=float)
    covered = []
    for truth in np.linspace(0.05, 0.95, 91):
        inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        covered.append(float(scipy.stats.binom.pmf(np.arange(n + 1), n, truth) @ inside))
    assert WITHIN[0] < float(np.mean(covered)) < WITHIN[1]
    assert min(covered) > 0.83, "the worst rates, near 0 and 1, at five tasks"


@pytest.mark.parametrize("alike", [0.0, 0.3, 0.9])
def test_clustered_intervals_cover_where_wilson_does_not(alike: float) -> None:
    def drawn(rng: np.random.Generator) -> list[bool]:
        return rates(rng, 40, 8, 0.3, alike)

    assert WITHIN[0] < coverage(0.3, lambda rng: proportion(drawn(rng), names(40, 8)), 600) < WITHIN[1]
    if alike:
        plain = coverage(0.3, lambda rng: wilson(sum(drawn(rng)), 320), 600)
        assert plain < 0.85, "the plain interval must be seen to fail, or clustering is for nothing"


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "attempts"), core_sample([(10, 20), (25, 4), (50, 1), (20, 8)], 1, key="rates"))
def test_intervals_of_a_success_rate_cover_it(tasks: int, attempts: int) -> None:
    labels = names(tasks, attempts)
    found = coverage(0.3, lambda rng: proportion(rates(rng, tasks, attempts, 0.3, 0.3), labels))
    assert WITHIN[0] < found < WITHIN[1]


# -- means ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_intervals_of_a_mean_over_seeds_cover_it(seeds: int) -> None:
    assert WITHIN[0] < coverage(-7.0, lambda rng: student(rng.normal(-7.0, 3.0, seeds).tolist())) < WITHIN[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "attempts"), core_sample([(FEWEST_TASKS, 1), (FEWEST_TASKS, 4), (25, 1), (100, 3)], 1, key="cover")
)
@pytest.mark.parametrize("kind", ["normal", "turns", "exponential"])
def test_intervals_of_a_mean_over_tasks_cover_it(kind: str, tasks: int, attempts: int) -> None:
    """``turns``: tasks differ in difficulty, and an attempt pays −1 a turn, up to a limit of 20."""
    labels = names(tasks, attempts)

    def turns(rng: np.random.Generator, tasks: int, attempts: int) -> NDArray[np.float64]:
        return -np.minimum(rng.geometric(np.repeat(rng.beta(2, 6, tasks), attempts)), 20).astype(float)

    def draw(rng: np.random.Generator) -> Estimate:
        if kind == "turns":
            return mean_return(turns(rng, tasks, attempts).tolist(), labels)
        noise = rng.normal if kind == "normal" else rng.exponential
        return mean_return((np.repeat(noise(size=tasks), attempts) + noise(size=tasks * attempts)).tolist(), labels)

    truth = {"normal": 0.0, "exponential": 2.0}.get(kind)
    if truth is None:
        truth = float(turns(np.random.default_rng(4), 400_000, 1).mean())
    assert WITHIN[0] < coverage(truth, draw) < WITHIN[1]


def test_fewer_tasks_would_not_cover_a_skewed_mean() -> None:
    """Why there is a least number of tasks: over five, the interval misses in 10 % of runs."""
    found = coverage(1.0, lambda rng: mean_over_tasks(rng.exponential(size=5).tolist(), fewest=2), 600)
    assert found < WITHIN[0]


# -- differences ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("tasks", "attempts"), core_sample([(12, 4), (50, 1)], 1, key="differences"))
def test_intervals_of_a_difference_cover_it(tasks: int, attempts: int, paired: bool) -> None:
    """The second policy solves half of what the first does not, or of other tasks."""
    labels = names(tasks, attempts)

    def draw(rng: np.random.Generator) -> Estimate:
        chance = rng.beta(1, 1, tasks)
        better = (1 + (chance if paired else rng.beta(1, 1, tasks))) / 2
        a, b = (rng.random((tasks, attempts)) < each[:, None] for each in (chance, better))
        alike = 0.0
        if paired and min(x.mean(1).std() for x in (a, b)) > 0:
            alike = float(np.corrcoef(a.mean(1), b.mean(1))[0, 1])
        one, other = (proportion(x.ravel().tolist(), labels) for x in (a, b))
        return square_and_add(other, one, correlation=alike)

    assert WITHIN[0] < coverage(0.25, draw) < WITHIN[1]


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_a_difference_of_returns_cover_it(paired: bool) -> None:
    """Returns of −1 a turn; the second policy needs half of the turns."""
    tasks = 20

    def draw(rng: np.random.Generator) -> Estimate:
        hard = rng.gamma(2.0, 3.0, tasks)
        a = -(1.0 + rng.poisson(hard))
        b = -(1.0 + rng.poisson((hard if paired else rng.gamma(2.0, 3.0, tasks)) / 2))
        if paired:
            return mean_over_tasks((b - a).tolist())
        return square_and_add(mean_return(b.tolist()), mean_return(a.tolist()))

    assert WITHIN[0] < coverage(3.0, draw) < WITHIN[1]
