"""Spaces: enough of Gymnasium's to pass its checkers, wrappers and vector environments."""

from __future__ import annotations

import copy
import pickle
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import turnwise as tw
from turnwise.envs.spaces import ActionSpace, ObservationSpace

from .certify.faults_text import Password
from .certify.faults_tools import Shelf


def test_samples_are_members_and_follow_the_seed() -> None:
    for make in (
        lambda: ObservationSpace(seed=4),
        lambda: ActionSpace(seed=4),
        lambda: ActionSpace(("a", "b"), seed=4),
    ):
        space, twin = make(), make()
        samples = [space.sample() for _ in range(10)]
        assert samples == [twin.sample() for _ in range(10)]
        assert len(set(map(repr, samples))) > 1
        assert all(space.contains(sample) for sample in samples)
        assert space == twin == copy.deepcopy(space) == pickle.loads(pickle.dumps(space))
        assert not space.is_np_flattenable


def test_what_belongs_and_what_does_not() -> None:
    assert ActionSpace().contains("text")
    assert ActionSpace().contains(tw.ToolCall("x"))
    assert not ActionSpace().contains(3)
    assert not ObservationSpace().contains("text")
    assert ActionSpace(("a",)) != ActionSpace(("b",))
    assert ObservationSpace() != ActionSpace()
    assert len({ObservationSpace(), ObservationSpace()}) == 1
    assert len({ActionSpace(("a",)), ActionSpace(("a",))}) == 1


@pytest.mark.parametrize("cls", [Password, Shelf])
def test_gymnasium_takes_them(cls: type[tw.TurnEnv]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not having a spec")
        check_env(cls())
    vector = gymnasium.vector.SyncVectorEnv([cls, cls, cls])
    observations, infos = vector.reset(seed=[1, 2, 3])
    assert len(observations) == 3
    assert len(infos["turn"] if "turn" in infos else infos["task"]) > 0
    vector.step([env.random_action(tw.Rng(1)) for env in vector.envs])  # type: ignore[attr-defined]
    vector.close()
