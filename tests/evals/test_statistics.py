"""Statistics against closed forms, published tables, scipy and brute force; ``test_coverage.py`` has simulations."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.evals.statistics import (
    FEWEST_TASKS,
    Estimate,
    mean_over_tasks,
    mean_return,
    pass_at_k,
    pass_hat_k,
    proportion,
    square_and_add,
    student,
    wilson,
)

COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


# -- Wilson ---------------------------------------------------------------------------------------------------------


@given(counts=COUNTS, confidence=st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_wilson_is_scipys(counts: tuple[int, int], confidence: float) -> None:
    successes, n = counts
    reference = scipy.stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert ends(wilson(successes, n, confidence=confidence)) == pytest.approx(
        (reference.low, reference.high), abs=1e-12
    )


@given(counts=COUNTS)
def test_wilson_contains_the_rate_stays_in_the_unit_interval_and_is_symmetric(counts: tuple[int, int]) -> None:
    successes, n = counts
    estimate, mirror = wilson(successes, n), wilson(n - successes, n)
    low, high = ends(estimate)
    assert 0 <= low <= estimate.value <= high <= 1
    assert low < high, "no finite sample makes us certain"
    assert (1 - high, 1 - low) == pytest.approx(ends(mirror), abs=1e-12), "failure is counted as success is"


@given(counts=COUNTS)
def test_wilson_narrows_with_n_and_widens_with_confidence(counts: tuple[int, int]) -> None:
    successes, n = counts

    def width(estimate: Estimate) -> float:
        low, high = ends(estimate)
        return high - low

    assert width(wilson(4 * successes, 4 * n)) < width(wilson(successes, n))
    assert width(wilson(successes, n, confidence=0.9)) < width(wilson(successes, n, confidence=0.99))


def test_wilson_inverts_the_score_test() -> None:
    """At each end of the interval the score test's z is exactly the quantile."""
    estimate = wilson(61, 100)
    for end in ends(estimate):
        z = (estimate.value - end) / math.sqrt(end * (1 - end) / 100)
        assert abs(z) == pytest.approx(1.959964, abs=1e-6)


def test_nothing_has_no_rate() -> None:
    calls: list[Callable[[], Estimate]] = [
        lambda: wilson(0, 0),
        lambda: proportion([]),
        lambda: student([]),
        lambda: student([]),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="no scored episodes"):
            call()


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(UsageError, match="not a proportion"):
        wilson(successes, n)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(UsageError, match="confidence"):
        wilson(1, 2, confidence=confidence)


# -- clustered proportions ------------------------------------------------------------------------------------------


@given(values=st.lists(st.booleans(), min_size=1, max_size=60))
def test_one_attempt_per_task_is_plain_wilson(values: list[bool]) -> None:
    assert proportion(values) == proportion(values, list(range(len(values)))) == wilson(sum(values), len(values))


@given(values=st.lists(st.booleans(), min_size=2, max_size=30), copies=st.integers(2, 6))
def test_repeating_identical_attempts_adds_no_certainty(values: list[bool], copies: int) -> None:
    """A greedy policy that is run k times on each task has not been tested on more tasks."""
    repeated = proportion(
        [v for v in values for _ in range(copies)], [i for i in range(len(values)) for _ in range(copies)]
    )
    once = wilson(sum(values), len(values))
    assert repeated.value == pytest.approx(once.value)
    low, high = ends(repeated)
    assert low <= ends(once)[0] + 1e-9
    assert high >= ends(once)[1] - 1e-9
    assert repeated.n == len(values), "the task is the unit"


def test_unanimous_attempts_count_each_task_once() -> None:
    assert ends(proportion([True] * 40, [i // 4 for i in range(40)])) == pytest.approx(ends(wilson(10, 10)))


def test_one_task_says_little() -> None:
    low, high = ends(proportion([True, False] * 50, ["only"] * 100))
    assert high - low > 0.8


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=60),
)
def test_clustered_intervals_are_sane(pairs: list[tuple[bool, int]]) -> None:
    values, clusters = [v for v, _ in pairs], [c for _, c in pairs]
    estimate = proportion(values, clusters)
    low, high = ends(estimate)
    assert 0 <= low <= estimate.value <= high <= 1
    assert estimate.value == pytest.approx(sum(values) / len(values))


# -- differences ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
        ((10, 10), (0, 20), (0.6791, 1.0)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_newcombes_table(one: tuple[int, int], other: tuple[int, int], expected: tuple[float, float]) -> None:
    """Newcombe (1998), Stat. Med. 17:873-890, table II, method 10."""
    assert ends(square_and_add(wilson(*one), wilson(*other))) == pytest.approx(expected, abs=1e-4)


@given(one=COUNTS, other=COUNTS, correlation=st.floats(-1, 1))
def test_difference_is_antisymmetric_and_bounded(
    one: tuple[int, int], other: tuple[int, int], correlation: float
) -> None:
    forward = square_and_add(wilson(*one), wilson(*other), correlation=correlation)
    backward = square_and_add(wilson(*other), wilson(*one), correlation=correlation)
    low, high = ends(forward)
    assert low <= forward.value <= high
    assert (-high, -low) == pytest.approx(ends(backward), abs=1e-12), "B − A mirrors A − B"
    if correlation >= 0:
        assert low >= -1 - 1e-12
        assert high <= 1 + 1e-12


def test_positive_correlation_narrows_the_difference() -> None:
    """Pairing pays: the same tasks in both runs make the difference surer."""
    a, b = wilson(30, 50), wilson(25, 50)
    widths = [
        high - low for low, high in (ends(square_and_add(a, b, correlation=rho)) for rho in (-0.5, 0.0, 0.4, 0.8))
    ]
    assert widths == sorted(widths, reverse=True)


def test_difference_to_an_unknown_interval_is_unknown() -> None:
    assert square_and_add(student([1.0]), student([0.0, 1.0])).low is None


@pytest.mark.slow
@pytest.mark.shift
@given(counts=COUNTS)
def test_a_run_compared_with_itself_shows_no_difference(counts: tuple[int, int]) -> None:
    assert not square_and_add(wilson(*counts), wilson(*counts)).excludes_zero


# -- means ----------------------------------------------------------------------------------------------------------


@given(values=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_student_is_scipys(values: list[float]) -> None:
    estimate = student(values)
    error = scipy.stats.sem(values)
    if error > 0:
        low, high = scipy.stats.t.interval(0.95, len(values) - 1, np.mean(values), error)
        assert ends(estimate) == pytest.approx((low, high), rel=1e-9, abs=1e-9)


@given(
    tasks=st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3), min_size=2, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_with_equally_many_attempts_the_means_of_tasks_are_what_counts(
    tasks: list[list[float]], order: random.Random
) -> None:
    pairs = [(value, task) for task, values in enumerate(tasks) for value in values]
    order.shuffle(pairs)
    over_tasks = mean_over_tasks([value for value, _ in pairs], [task for _, task in pairs], fewest=2)
    alone = mean_over_tasks([sum(values) / 3 for values in tasks], fewest=2)
    assert (over_tasks.value, *ends(over_tasks)) == pytest.approx((alone.value, *ends(alone)), abs=1e-4)
    assert over_tasks.n == alone.n == len(tasks)


@given(values=st.lists(st.floats(0, 100), min_size=1, max_size=15), middle=st.floats(-50, 50))
@example(values=[3e-136], middle=0.0)  # its cube is below the smallest number
def test_without_skew_the_interval_of_a_mean_is_students(values: list[float], middle: float) -> None:
    symmetric = [middle + sign * value for value in values for sign in (-1, 1)]
    assert ends(mean_over_tasks(symmetric, fewest=2)) == pytest.approx(ends(student(symmetric)), abs=1e-6)


def test_halls_transformation_removes_the_skew() -> None:
    """The ends are where g(T) = T + γT²/3 + γ²T³/27 + γ/6n is ±t/√n, with T = (x̄ − end)/s."""
    values = [float(x) for x in np.random.default_rng(5).exponential(size=12)]
    x, n = np.array(values), len(values)
    gamma, t = float(scipy.stats.skew(x)), float(scipy.stats.t.ppf(0.975, n - 1)) / math.sqrt(n)
    low, high = ends(mean_over_tasks(values))
    for end, target in ((low, t), (high, -t)):
        of = (x.mean() - end) / x.std(ddof=1)
        assert of + gamma * of**2 / 3 + gamma**2 * of**3 / 27 + gamma / (6 * n) == pytest.approx(target, abs=1e-9)
    assert high - x.mean() > x.mean() - low, "the long tail is on the right"


def test_tasks_with_more_attempts_weigh_more() -> None:
    """By hand: mean 3, sums of residuals −2, −2, 4, so s² = 3/2 · 24/25 = 1.44 and γ = 16/8^1.5 = 0.7071."""
    estimate = mean_over_tasks([1.0, 2.0, 2.0, 5.0, 5.0], ["a", "b", "b", "c", "c"], fewest=2)
    y = [sign * 4.302653 / math.sqrt(3) - math.sqrt(0.5) / 18 for sign in (1, -1)]
    h = [3 / math.sqrt(0.5) * float(np.cbrt(1 + math.sqrt(0.5) * each) - 1) for each in y]
    assert estimate.value == 3
    assert ends(estimate) == pytest.approx([3 - 1.2 * math.sqrt(3) * each for each in h], abs=1e-5)


def test_clusters_widen_the_interval() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=12), 8).tolist()
    low, high = ends(mean_over_tasks(values, np.repeat(np.arange(12), 8).tolist()))
    alone_low, alone_high = ends(mean_over_tasks(values))
    assert high - low > 2 * (alone_high - alone_low)


def test_a_single_unit_has_no_interval_and_equal_ones_no_width() -> None:
    assert student([3.0]).high is None
    assert mean_over_tasks([3.0], fewest=2).high is None
    assert mean_over_tasks([1.0, 2.0, 3.0], ["t", "t", "t"], fewest=2).low is None
    assert ends(mean_over_tasks([2.0] * FEWEST_TASKS)) == (2.0, 2.0)


def test_a_mean_over_few_tasks_has_no_interval() -> None:
    few = [float(number) for number in range(FEWEST_TASKS - 1)]
    found = mean_over_tasks(few * 3, [*range(len(few))] * 3)
    assert (found.value, found.low, found.n, found.method) == (5.0, None, 11, "too few tasks")
    assert mean_over_tasks([*few, 1.0]).low is not None


def test_returns_of_zero_and_one_are_a_rate() -> None:
    assert mean_return([0.0, 1.0, 1.0]) == wilson(2, 3)
    assert mean_return([1.0] * 4, ["a", "a", "b", "b"]) == proportion([True] * 4, ["a", "a", "b", "b"])
    assert mean_return([0.0, 1.0, 0.5]) == mean_over_tasks([0.0, 1.0, 0.5])
    assert mean_return([0.0, 1.0], ["a", "a"]).low is None, "one task says nothing about others"


@pytest.mark.parametrize(
    "call",
    [
        lambda: mean_over_tasks([1.0, 2.0], [1]),
        lambda: proportion([True, False], [1]),
    ],
)
def test_labels_must_match_values(call: Callable[[], Estimate]) -> None:
    with pytest.raises(UsageError, match="each value needs one"):
        call()


def test_values_must_be_finite() -> None:
    with pytest.raises(UsageError, match="finite"):
        student([1.0, math.nan])


# -- pass@k and pass^k ----------------------------------------------------------------------------------------------


@given(data=st.data(), n=st.integers(1, 7))
def test_pass_at_k_is_the_average_over_all_subsets(data: st.DataObject, n: int) -> None:
    """Brute force over every way to pick k of the n attempts."""
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    outcomes = [True] * c + [False] * (n - c)
    subsets = list(itertools.combinations(outcomes, k))
    assert pass_at_k(n, c, k) == pytest.approx(np.mean([any(s) for s in subsets]))
    assert pass_hat_k(n, c, k) == pytest.approx(np.mean([all(s) for s in subsets]))


@given(data=st.data(), n=st.integers(1, 200))
def test_pass_laws(data: st.DataObject, n: int) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    assert pass_at_k(n, c, 1) == pytest.approx(c / n)
    assert pass_hat_k(n, c, 1) == pytest.approx(c / n)
    assert pass_hat_k(n, c, k) <= c / n + 1e-12 <= pass_at_k(n, c, k) + 2e-12
    assert pass_hat_k(n, c, k) == pytest.approx(1 - pass_at_k(n, n - c, k)), "all succeed = not one fails"


def test_pass_at_k_is_unbiased() -> None:
    """The expectation over binomial counts is exactly 1 − (1−p)^k, and p^k for pass^k."""
    n, k, p = 10, 4, 0.3
    weights = [float(scipy.stats.binom.pmf(c, n, p)) for c in range(n + 1)]
    assert sum(w * pass_at_k(n, c, k) for c, w in enumerate(weights)) == pytest.approx(1 - (1 - p) ** k)
    assert sum(w * pass_hat_k(n, c, k) for c, w in enumerate(weights)) == pytest.approx(p**k)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 5), (4, 2, 0), (4, 5, 2), (4, -1, 2)])
def test_impossible_k_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(UsageError):
        pass_at_k(n, c, k)
