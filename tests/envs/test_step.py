"""Steps: illegal results cannot be made."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import turnwise as tw
from turnwise.errors import ContractError


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, "1", None, 1j, np.nan])
@pytest.mark.parametrize("make", [tw.running, tw.success, tw.failure, tw.truncation])
def test_a_reward_is_a_finite_number(make: Callable[..., tw.Step], reward: Any) -> None:
    with pytest.raises(ContractError, match="not a finite number"):
        make("x", reward)


@pytest.mark.parametrize("reward", [1, True, np.float32(0.5), np.int64(3), 0.25])
def test_any_real_number_is_a_reward(reward: Any) -> None:
    assert tw.running("x", reward).reward == reward


def test_a_step_ends_in_one_way_only() -> None:
    with pytest.raises(ContractError, match="never both"):
        tw.Step(tw.Observation(), terminated=True, truncated=True)


def test_only_a_last_step_carries_a_score() -> None:
    with pytest.raises(ContractError, match="cannot carry a score"):
        tw.Step(tw.Observation(), score=tw.Score(True))


def test_the_constructors_say_what_they_are() -> None:
    score = tw.Score(True, {"a": False})
    cases = [
        (tw.running("x"), (0.0, False, False, None)),
        (tw.success("x"), (1.0, True, False, tw.Score(True))),
        (tw.failure("x"), (0.0, True, False, tw.Score(False))),
        (tw.truncation("x", 0.5), (0.5, False, True, None)),
        (tw.termination("x", 0.3, score), (0.3, True, False, score)),
    ]
    for step, expected in cases:
        assert (step.reward, step.terminated, step.truncated, step.score) == expected
        assert step.done == (step.terminated or step.truncated)
        assert step.observation.text == "x"


def test_info_is_passed_on() -> None:
    assert dict(tw.running("x", moved=True).info) == {"moved": True}


@pytest.mark.parametrize("bad", [{1, 2}, object(), [b"x"]])
def test_info_that_no_store_holds_is_no_info(bad: Any) -> None:
    """It ended a whole evaluation or training run, as a fault of the store, and named no line."""
    with pytest.raises(
        ContractError, match=r"info of a step is not JSON: .*; record text, numbers, lists and dicts only"
    ):
        tw.running("x", seen=bad)


@pytest.mark.parametrize("good", [np.float32(0.5), np.arange(3), math.nan, {1: (2, None)}])
def test_info_may_be_what_a_store_converts(good: Any) -> None:
    assert tw.running("x", seen=good).info["seen"] is good


@pytest.mark.parametrize("score", [0.5, True, {"success": True}])
def test_a_score_is_a_score(score: Any) -> None:
    """A number raised in Turnwise's own code, and named its line."""
    with pytest.raises(ContractError, match=r"is not a tw.Score; write tw.Score\(success=...\)"):
        tw.Step(tw.Observation(), terminated=True, score=score)


def test_a_check_of_a_score_names_itself() -> None:
    with pytest.raises(ContractError, match=r"check 'paid' must be true or false; got 0\.5"):
        tw.Score(False, {"paid": 0.5})  # type: ignore[dict-item]
