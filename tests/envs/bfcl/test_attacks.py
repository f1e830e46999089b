"""An episode is scored whatever an agent calls in a suite of BFCL."""

from __future__ import annotations

import pytest

from ...shifts import sampled
from ..hostile import all_attempts, unscored
from .test_score import IDS, made


@pytest.mark.parametrize("category", IDS)
def test_some_attempts_are_scored(category: str) -> None:
    env = made(category)
    env.reset(seed=1)
    tries = all_attempts(env)
    names = sampled(sorted(tries), 8, key=f"attacks on {category}")
    assert unscored(env, {name: tries[name] for name in names}) == {}


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("category", IDS)
def test_every_attempt_is_scored(category: str) -> None:
    env = made(category)
    env.reset(seed=1)
    assert unscored(env, all_attempts(env)) == {}
