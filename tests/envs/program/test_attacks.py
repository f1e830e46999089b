"""An episode is scored whatever a program does to its session and to the calls that leave its sandbox."""

from __future__ import annotations

import pytest

from ...shifts import sampled
from ..hostile import unscored
from .worlds import Bookshops


def started(sandbox: str) -> Bookshops:
    env = Bookshops(actions="python", sandbox=sandbox, seconds=2.0, max_turns=6)
    env.reset(seed=0)
    return env


@pytest.mark.slow
def test_some_attempts_are_scored(sandbox: str) -> None:
    env = started(sandbox)
    tries = env.attacks()
    quick = [name for name in tries if not any(word in name for word in ("stop", "never", "spin", "without end"))]
    assert len(tries) >= 35
    assert unscored(env, {name: tries[name] for name in sampled(quick, 8, key="program attacks")}) == {}
    env.close()


@pytest.mark.slow
@pytest.mark.shift
def test_every_attempt_is_scored(sandbox: str) -> None:
    env = started(sandbox)
    assert unscored(env, env.attacks()) == {}
    env.close()
