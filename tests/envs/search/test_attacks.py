"""An episode is scored whatever an agent searches for, opens, cites or answers."""

from __future__ import annotations

from typing import cast

import pytest

import turnwise as tw
from turnwise.envs.search.env import SearchEnv

from ..hostile import all_attempts, unscored


@pytest.mark.slow
@pytest.mark.parametrize("id", ["turnwise/Search-v1", "turnwise/SearchTags-v1", "turnwise/SearchDocuments-v1"])
def test_every_attempt_is_scored(id: str) -> None:
    env = cast(SearchEnv, tw.make(id).unwrapped)
    env.reset(seed=1, options={"level": 3})
    assert len(env.attacks()) >= 20
    assert unscored(env, all_attempts(env)) == {}
