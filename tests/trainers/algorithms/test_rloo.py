from __future__ import annotations

import pytest
import torch
from hypothesis import given

from turnwise.trainers.algorithms.rloo import RLOO
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.objective import objective_loss
from turnwise.trainers.on_policy import OnPolicyConfig, weighted

from ..fakes import Bigram
from .batches import Rewards, batch, mean, per_turn, tasks


@given(tasks)
def test_credit_is_the_return_less_the_mean_of_the_others(rewards: Rewards) -> None:
    wanted = []
    for tries in rewards:
        returns = [sum(paid) for paid in tries]
        for number, paid in enumerate(tries):
            others = returns[:number] + returns[number + 1 :]
            wanted += [returns[number] - mean(others) if others else 0.0] * len(paid)
    assert per_turn(RLOO(), batch(rewards)) == pytest.approx(wanted, abs=1e-5)


def test_its_name_alone_gives_the_gradient_of_the_paper() -> None:
    """``(1/N) Σ_i A_i ∇ log π(τ_i)``, by autograd on whole trajectories (arXiv 2402.14740, eq. 8)."""
    rewards = [[[1.0, 0.0], [0.5]], [[0.0, 2.0, 1.0], [1.0], [-1.0]]]
    config = OnPolicyConfig.model_validate({"env": "e", "model": "m", "algorithm": {"name": "rloo"}})
    model = Bigram()
    given_ = batch(rewards)
    given_ = given_.with_rows(Learner(model, OptimizerConfig()).recompute_old(given_.rows))
    rows = weighted(config, config.algorithm.credit(given_, None).rows, 5)
    loss, _ = objective_loss(score(model, rows), rows, config.loss.objective())
    (found,) = torch.autograd.grad(loss, model.table)

    logp_T = score(model, rows).logp
    trajectory_E = torch.zeros(5).index_add(0, rows.episode, logp_T)
    advantage_E = torch.tensor([0.5, -0.5, 3.0, 1 - 1.0, -1 - 2.0])  # returns 1, .5 and 3, 1, −1, less the others' mean
    (wanted,) = torch.autograd.grad(-(advantage_E * trajectory_E).sum() / 5, model.table)
    assert torch.allclose(found, wanted, atol=1e-5)
