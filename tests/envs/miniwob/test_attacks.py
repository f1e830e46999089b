"""Whatever an agent does to a page of MiniWoB, the episode is scored."""

from __future__ import annotations

import pytest

from turnwise.tasks.miniwob.suite import TASKS

from ...shifts import sampled
from ..hostile import all_attempts, unscored
from .around import opened

pytestmark = pytest.mark.slow
PAGES = sampled(TASKS, 2, key="miniwob pages")


def test_some_attempts_are_scored() -> None:
    with opened(PAGES[0]) as env:
        tries = env.attacks()
        assert len(tries) >= 35
        names = sampled(sorted(tries), 4, key="miniwob attacks")
        assert unscored(env, {name: tries[name] for name in names}) == {}


@pytest.mark.shift("attacks")
@pytest.mark.parametrize("page", PAGES)
def test_every_attempt_is_scored(page: str) -> None:
    with opened(page) as env:
        assert unscored(env, all_attempts(env)) == {}
