"""An episode of a game is scored whatever an agent says."""

from __future__ import annotations

import pytest

from ...shifts import sampled
from ..hostile import all_attempts, unscored
from .test_every_id import id, made

__all__ = ["id"]


@pytest.mark.slow
def test_some_attempts_are_scored(id: str) -> None:
    env = made(id)
    env.reset(seed=1)
    tries = env.attacks()
    assert len(tries) >= 40
    assert unscored(env, {name: tries[name] for name in sampled(sorted(tries), 6, key=f"attacks on {id}")}) == {}
    env.close()


@pytest.mark.slow
@pytest.mark.shift
def test_every_attempt_is_scored(id: str) -> None:
    env = made(id)
    env.reset(seed=1)
    assert unscored(env, all_attempts(env)) == {}
    env.close()
