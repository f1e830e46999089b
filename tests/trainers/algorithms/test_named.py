"""Laws of every algorithm that can be named, whatever its credit."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given

from turnwise.config import Config
from turnwise.trainers.algorithms.algorithm import Algorithm
from turnwise.trainers.algorithms.modulator import Modulator
from turnwise.trainers.algorithms.named import ALGORITHMS, algorithm_named
from turnwise.trainers.algorithms.rloo import RLOO
from turnwise.trainers.algorithms.token_value import TokenValueAlgorithm
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import Group
from turnwise.trainers.on_policy import OnPolicyConfig

from .batches import Rewards, batch, per_turn, tasks


def least(kind: type[Algorithm]) -> dict[str, str]:
    """The settings without which there is no such algorithm: all of them are paths."""
    return {name: "folder" for name, setting in kind.model_fields.items() if setting.is_required()}


def default(kind: type[Algorithm]) -> Algorithm:
    return kind.model_validate(least(kind))


WITHOUT_CRITIC = [kind for name, kind in ALGORITHMS.items() if not kind.needs_values and name != "istar"]
"""Algorithms without a critic and without a model of preferences."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", WITHOUT_CRITIC)
@given(rewards=tasks)
def test_credit_is_given_for_the_batchs_rewards_not_the_episodes(kind: type[Algorithm], rewards: Rewards) -> None:
    """So that a penalty in the reward (KL, length) reaches every algorithm in the same way."""
    paid_otherwise = [[[2 * value - 1 for value in paid] for paid in tries] for tries in rewards]
    wanted = batch(paid_otherwise)
    assert per_turn(default(kind), batch(rewards).with_reward(wanted.reward_U)) == per_turn(default(kind), wanted)


@pytest.mark.parametrize("kind", WITHOUT_CRITIC)
def test_an_empty_batch_is_no_error(kind: type[Algorithm]) -> None:
    assert default(kind).credit(Batch.of([]), None).rows.tokens == 0
    lost = replace(batch([[[1.0]]]).groups[0], members=(), excluded=3)
    assert isinstance(lost, Group)
    assert default(kind).credit(Batch.of([lost]), None).rows.tokens == 0, "all of a group's attempts were lost"


@pytest.mark.parametrize("kind", [kind for kind in WITHOUT_CRITIC if kind.smallest_group > 1])
def test_a_lost_attempt_leaves_the_others_and_one_alone_gets_nothing(kind: type[Algorithm]) -> None:
    assert per_turn(default(kind), batch([[[5.0, 1.0]]])) == [0.0, 0.0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_its_paper_settles_are_settings_that_there_are(name: str) -> None:
    kind = ALGORITHMS[name]
    given_ = {"env": "e", "model": "m", "algorithm": {"name": name, **least(kind)}}
    config = OnPolicyConfig.model_validate(given_)
    assert config.algorithm == default(kind)
    assert config.out == f"runs/{name}"
    assert OnPolicyConfig.model_validate({**given_, "algorithm": default(kind)}) == config


@pytest.mark.parametrize("kind", ALGORITHMS.values())
def test_it_is_one_small_file_that_cites_its_paper(kind: type[Algorithm]) -> None:
    source = inspect.getsource(inspect.getmodule(kind) or kind)
    assert len(source.splitlines()) <= 120
    assert "arXiv" in source or "Williams 1992" in source


def test_names_lead_to_classes_before_anything_is_validated() -> None:
    assert algorithm_named({"name": "rloo", "nonsense": 1}) is RLOO
    assert algorithm_named(RLOO()) is RLOO
    nothing: tuple[Any, ...] = (None, {}, {"name": "nobody"}, {"name": 3}, "rloo", [])
    assert [algorithm_named(each) for each in nothing] == [None] * len(nothing)


def test_advantages_are_32_bit() -> None:
    for kind in WITHOUT_CRITIC:
        assert default(kind).credit(batch([[[1.0], [0.0]]]), None).rows.advantage.dtype == torch.float32


@pytest.mark.parametrize(
    ("kind", "verb"), [(Algorithm, "credit"), (Modulator, "modulate"), (TokenValueAlgorithm, "loss")]
)
def test_what_lacks_its_verb_cannot_be_made(kind: type[Config], verb: str) -> None:
    incomplete = type("Incomplete", (kind,), {"__module__": __name__})
    with pytest.raises(TypeError, match=f"abstract method '?{verb}'?"):
        incomplete(name="incomplete")
