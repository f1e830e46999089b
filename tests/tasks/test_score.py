"""Scores: the verdict on one episode."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import ContractError
from turnwise.tasks.score import Score

checks = st.dictionaries(st.text(max_size=5), st.booleans(), max_size=6)


@given(st.booleans(), checks)
def test_the_fraction_is_the_share_of_checks_or_else_success(success: bool, named: dict[str, bool]) -> None:
    score = Score(success, named)
    expected = sum(named.values()) / len(named) if named else float(success)
    assert score.fraction == expected
    assert 0 <= score.fraction <= 1


@given(st.booleans(), checks)
def test_scores_are_copied_and_pickled_as_equals(success: bool, named: dict[str, bool]) -> None:
    score = Score(success, named, ("moved",), ("rule 1",))
    assert copy.deepcopy(score) == pickle.loads(pickle.dumps(score)) == score


def test_a_score_keeps_what_it_was_given() -> None:
    named: Any = {"a": True}
    touched: Any = ["x"]
    score = Score(True, named, touched)
    named["a"] = False
    touched.append("y")
    assert score.checks == {"a": True}
    assert score.collateral == ("x",)


def test_checks_that_are_no_mapping_are_refused_with_an_example() -> None:
    wrong: Any = ["booked"]
    with pytest.raises(ContractError, match=r"checks must map names to truth values, .*\{'booked': True\}; got \['boo"):
        Score(True, wrong)
