"""An episode is scored whatever an agent searches for, opens, cites or answers."""

from __future__ import annotations

from typing import cast

import pytest

import turnwise as tw
from turnwise.envs.search.env import SearchEnv

from ...shifts import core_sample
from ..hostile import all_attempts, unscored


@pytest.mark.slow
@pytest.mark.parametrize(
    "id", core_sample([f"turnwise/Search{kind}-v1" for kind in ("", "Tags", "Documents")], 1, key="id")
)
def test_every_attempt_is_scored(id: str) -> None:
    env = cast(SearchEnv, tw.make(id).unwrapped)
    env.reset(seed=1, options={"level": 3})
    assert len(env.attacks()) >= 20
    assert unscored(env, all_attempts(env)) == {}
