from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from turnwise.trainers.critics.ranking import chance_variance, kendall, ranking

VALUES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9)


@given(VALUES)
def test_kendalls_tau_with_ties_is_scipys(pairs: list[tuple[int, int]]) -> None:
    one, other = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    theirs = float(kendalltau(one, other).statistic)
    assert kendall(one, other) == pytest.approx(0.0 if math.isnan(theirs) else theirs)


def test_by_hand() -> None:
    assert kendall([1, 2, 3], [10, 20, 30]) == 1
    assert kendall([1, 2, 3], [30, 20, 10]) == -1
    assert kendall([1, 2, 3], [10, 30, 20]) == pytest.approx(1 / 3), "two pairs agree, one does not"
    assert kendall([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / math.sqrt(2 * 3)), "a tie costs less than an error"
    assert kendall([5, 5], [1, 2]) == 0


def test_states_without_a_difference_are_left_out_and_counted() -> None:
    found = ranking([[1, 2], [1, 2], [2, 1], [0], [7, 7]], [[0, 1], [3, 3], [0, 1], [9], [0, 1]])
    assert (found.states, found.silent) == (3, 2)
    assert found.mean == pytest.approx((1 - 1 + 0) / 3), "a critic that sees no difference ranks nothing"
    assert found.error == pytest.approx(math.sqrt(2 / 2) / math.sqrt(3))
    nothing = ranking([[1, 2]], [[3, 3]])
    assert math.isnan(nothing.mean)
    assert (nothing.states, nothing.silent) == (0, 1)
    assert math.isnan(ranking([[1, 2]], [[3, 4]]).error), "one state has no spread"
    assert ranking([], []).states == 0


@pytest.mark.parametrize("measured", [[1, 2], [1, 2, 3], [1, 2, 3, 4], [0, 0, 0, 1], [0, 0, 1, 1, 2]])
def test_the_variance_under_chance_is_that_of_all_orders(measured: list[float]) -> None:
    found = [kendall(order, measured) for order in permutations(range(len(measured)))]
    assert chance_variance(measured) == pytest.approx(sum(each**2 for each in found) / len(found))


def test_states_that_agree_are_as_uncertain_as_chance() -> None:
    assert ranking([[1, 2]] * 4, [[1, 2]] * 4).error == pytest.approx(0.5)
