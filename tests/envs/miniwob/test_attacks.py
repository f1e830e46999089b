"""An episode is scored whatever an agent does to a page of MiniWoB."""

from __future__ import annotations

import pytest

from ...shifts import sampled
from ..hostile import all_attempts, unscored
from .around import opened

pytestmark = pytest.mark.slow
PAGES = ("click-test-2", "enter-text", "login-user", "click-tab-2-hard")
"""Pages that were attacked with every attempt; the other 124 of the suite were not yet: see docs/developers/log."""


def test_some_attempts_are_scored() -> None:
    with opened(sampled(PAGES, 1, key="miniwob pages")[0]) as env:
        tries = env.attacks()
        assert len(tries) >= 35
        names = sampled(sorted(tries), 4, key="miniwob attacks")
        assert unscored(env, {name: tries[name] for name in names}) == {}


def test_a_window_that_is_only_opening_has_no_frame_and_ends_nothing() -> None:
    with opened("click-tab-2-hard") as env:
        name = "opens everything in new tabs"
        assert unscored(env, {name: env.attacks()[name]}) == {}


@pytest.mark.shift
@pytest.mark.parametrize("page", sampled(PAGES, 2, key="miniwob pages"))
def test_every_attempt_is_scored(page: str) -> None:
    with opened(page) as env:
        assert unscored(env, all_attempts(env)) == {}
