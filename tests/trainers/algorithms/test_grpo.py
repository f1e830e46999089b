from __future__ import annotations

import pytest
import torch
from hypothesis import given

from turnwise.trainers.algorithms.grpo import GRPO
from turnwise.trainers.algorithms.m_grpo import MGRPO
from turnwise.trainers.on_policy import OnPolicyConfig, weighted

from .batches import Rewards, batch, mean, per_turn, spread, tasks


@pytest.mark.slow
@given(tasks)
def test_credit_is_the_distance_from_the_mean_in_units_of_the_groups_deviation(rewards: Rewards) -> None:
    plain, scaled = [], []
    for tries in rewards:
        returns = [sum(paid) for paid in tries]
        for value, paid in zip(returns, tries, strict=True):
            plain += [value - mean(returns)] * len(paid)
            scaled += [(value - mean(returns)) / (spread(returns) + 1e-4)] * len(paid)
    assert per_turn(GRPO(), batch(rewards)) == pytest.approx(plain, abs=1e-5)
    assert per_turn(GRPO(std="group"), batch(rewards)) == pytest.approx(scaled, abs=1e-4)
    assert per_turn(MGRPO(), batch(rewards)) == pytest.approx(scaled, abs=1e-4), "a z-score by default"


@given(tasks)
def test_the_deviation_of_a_batch_is_one_for_all_and_of_those_with_a_baseline(rewards: Rewards) -> None:
    centered = [sum(paid) - mean([sum(p) for p in tries]) for tries in rewards for paid in tries if len(tries) > 1]
    plain = per_turn(GRPO(), batch(rewards))
    deviation = spread(centered) + 1e-4
    assert per_turn(GRPO(std="batch"), batch(rewards)) == pytest.approx([p / deviation for p in plain], abs=1e-4)


def test_a_group_of_equals_and_a_group_of_one_move_nothing_in_any_variant() -> None:
    given_ = batch([[[1.0, 2.0], [3.0]], [[7.0]], [[0.0], [5.0]]])
    for algorithm in (GRPO(), GRPO(std="group"), GRPO(std="batch"), MGRPO()):
        found = per_turn(algorithm, given_)
        assert found[:4] == [0.0, 0.0, 0.0, 0.0], "three turns of two equals, and one alone: never its raw return"
        assert found[4] == -found[5] != 0.0


def test_m_grpo_weighs_turns_alike_whatever_their_length() -> None:
    """``(1/G) Σ_i (1/|τ_i|) Σ_j (1/|a_ij|)`` (arXiv 2505.16421, eq. 2); turns here have 1, 2, 1 tokens."""
    config = OnPolicyConfig.model_validate({"env": "e", "model": "m", "algorithm": {"name": "m-grpo"}})
    given_ = batch([[[1.0, 0.0, 0.0], [0.5]]])
    rows = weighted(config, config.algorithm.credit(given_, None).rows, 2)
    totals = torch.zeros(4).index_add(0, rows.turn[rows.mask], rows.weight[rows.mask])
    assert totals.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
