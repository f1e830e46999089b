from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pydantic
import pytest
import torch
from torch import Tensor

from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.kl import KLConfig, kl_estimate, kl_in_reward, reference_metrics
from turnwise.trainers.learning.rows import Rows

from ..fakes import Said, conversation


def batch_of(*episodes: list[Said]) -> Batch:
    return Batch.of(grouped([conversation(said, name=str(i)) for i, said in enumerate(episodes)]))


def scored(batch: Batch, old: list[float], ref: list[float]) -> Batch:
    """The batch with these log-probabilities on its sampled tokens, in order."""
    blank = torch.zeros(len(batch.rows))
    mask = batch.rows.mask
    return batch.with_rows(
        batch.rows.with_logp_old(blank.masked_scatter(mask, torch.tensor(old))).with_logp_ref(
            blank.masked_scatter(mask, torch.tensor(ref))
        )
    )


def test_a_turn_pays_for_its_own_tokens() -> None:
    batch = batch_of([Said((0,), (1, 2), 0.5), Said((3,), (4,), 1.0)], [Said((0,), (5,), -1.0)])
    paid = kl_in_reward(scored(batch, [-1.0, -2.0, -0.5, -3.0], [-1.5, -2.5, -0.5, -1.0]), 0.1)
    assert paid.reward_U.tolist() == pytest.approx([0.5 - 0.1 * 1.0, 1.0, -1.0 + 0.1 * 2.0])
    assert paid.return_E.tolist() == pytest.approx([1.4, -0.8]), "credit is given for what is left"
    assert batch.reward_U.tolist() == [0.5, 1.0, -1.0], "the batch itself is as it was"


def test_a_turn_in_a_row_of_its_own_pays_once() -> None:
    """A context that was rewritten forks the row; the turn's tokens stay one turn's (trap 3)."""
    batch = batch_of([Said((0,), (1,)), Said((9,), (2, 3), rewrites=True)])
    assert torch.unique(batch.rows.row).numel() == 2
    paid = kl_in_reward(scored(batch, [-1.0, -1.0, -1.0], [-2.0, -3.0, -4.0]), 1.0)
    assert paid.reward_U.tolist() == pytest.approx([-1.0, -5.0])


def test_metrics_are_means_per_token() -> None:
    metrics = reference_metrics(scored(batch_of([Said((0,), (1, 2))]), [-1.0, -2.0], [-1.5, -1.0]).rows)
    assert metrics["kl_ref"] == pytest.approx((0.5 - 1.0) / 2)
    assert metrics["kl_ref_k3"] == pytest.approx(((math.exp(-0.5) - 1 + 0.5) + (math.e - 1 - 1)) / 2)
    empty = batch_of([Said((0,), (1,))]).rows.select([])
    assert reference_metrics(empty) == {}


# -- the same gradient, by enumeration ------------------------------------------------------------------------------


def logp_of(theta: Tensor, action: tuple[int, int]) -> Tensor:
    """Two turns of one token each: θ[0] before the first, θ[1 + a₁] before the second."""
    first, second = action
    return theta[0].log_softmax(-1)[first] + theta[1 + first].log_softmax(-1)[second]


def tables(seed: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    theta, ref = (torch.randn(4, 3, generator=g, dtype=torch.float64) for _ in range(2))
    return theta.requires_grad_(), ref


@pytest.mark.parametrize("seed", range(3))
def test_as_reward_and_as_k2_loss_it_has_the_same_expected_gradient(seed: int) -> None:
    """Over all 9 episodes of a policy of two turns, and it is that of KL(π ‖ ref) over whole episodes.

    As a reward the credit is the return from the turn on, so the KL of later turns is part of it. As a loss, k2 of a
    token has the gradient of that token's KL alone in a given state: it does not see that another first action leads
    where the KL is lower. So they agree turn by turn, with the credit of a turn cut to its own reward.
    """
    theta, ref = tables(seed)
    beta = 0.3
    as_reward = torch.zeros_like(theta)
    as_loss = torch.zeros_like(theta)
    whole = torch.zeros_like(theta)
    for action in itertools.product(range(3), range(3)):
        p = logp_of(theta, action).exp().detach()
        parts = [theta[0].log_softmax(-1)[action[0]], theta[1 + action[0]].log_softmax(-1)[action[1]]]
        refs = [ref[0].log_softmax(-1)[action[0]], ref[1 + action[0]].log_softmax(-1)[action[1]]]
        batch = batch_of([Said((0,), (action[0],)), Said((7,), (action[1],))])
        paid = kl_in_reward(scored(batch, [float(v.detach()) for v in parts], [float(v) for v in refs]), beta)
        rewards = paid.reward_U.double()
        for turn in (0, 1):
            (score,) = torch.autograd.grad(parts[turn], theta, retain_graph=True)
            as_reward -= p * float(rewards[turn]) * score
            whole -= p * float(rewards[turn:].sum()) * score
            (slope,) = torch.autograd.grad(kl_estimate(parts[turn], refs[turn], "k2"), theta, retain_graph=True)
            as_loss += p * beta * slope
    assert torch.allclose(as_reward, as_loss, atol=1e-6)
    exact = torch.zeros((), dtype=torch.float64)
    for action in itertools.product(range(3), range(3)):
        logp = logp_of(theta, action)
        exact = exact + logp.exp() * (logp - logp_of(ref, action))
    (wanted,) = torch.autograd.grad(beta * exact, theta)
    assert torch.allclose(whole, wanted, atol=1e-6), "with credit from the turn on, it is the gradient of the whole KL"
    assert not torch.allclose(as_loss, wanted, atol=1e-3), "which a loss per token is not, beyond one turn"


def test_k3_as_a_reward_would_have_another_gradient() -> None:
    """Why the configuration refuses it."""
    theta, ref = tables(0)
    p = theta[0].log_softmax(-1)
    exact = (p.exp() * (p - ref[0].log_softmax(-1))).sum()
    (wanted,) = torch.autograd.grad(exact, theta, retain_graph=True)
    got = {}
    for kind in ("k1", "k2", "k3"):
        value = kl_estimate(p.detach(), ref[0].log_softmax(-1), kind)
        (got[kind],) = torch.autograd.grad((p.exp() * value).sum(), theta, retain_graph=True)
    assert torch.allclose(got["k1"], wanted)
    assert not torch.allclose(got["k2"], wanted, atol=1e-2)
    assert not torch.allclose(got["k3"], wanted, atol=1e-2)


@pytest.mark.parametrize("far", [1e3, -1e3])
@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_far_from_the_reference_the_gradient_is_finite_and_points_back(kind: Any, far: float) -> None:
    logp = torch.tensor([far], requires_grad=True)
    value = kl_estimate(logp, torch.zeros(1), kind)
    (slope,) = torch.autograd.grad(value.sum(), logp)
    assert torch.isfinite(value).all()
    assert torch.isfinite(slope).all()
    if kind != "k1":
        assert math.copysign(1, float(slope)) == math.copysign(1, far), "descending brings π back to the reference"


# -- settings -------------------------------------------------------------------------------------------------------


def test_the_estimator_follows_from_the_place() -> None:
    assert KLConfig(coef=0.1).used == "k2"
    assert KLConfig(coef=0.1, estimator="k3").used == "k3"
    assert KLConfig(coef=0.1, where="reward").used == "k1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "k1"}, "its expected gradient is 0"),
        ({"where": "reward", "estimator": "k3"}, "only for k1 is that 0"),
        ({"where": "reward", "estimator": "k2"}, "only for k1 is that 0"),
        ({"coef": -0.1}, "greater than or equal to 0"),
    ],
)
def test_what_would_penalise_nothing_is_refused_and_told_why(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        KLConfig(**settings)


def test_rows_that_nobody_sampled_pay_nothing() -> None:
    batch = scored(batch_of([Said((0, 1, 2), (3,))]), [-1.0], [-1.0])
    rows: Rows = replace(batch.rows, logp_ref=torch.where(batch.rows.mask, batch.rows.logp_ref, -50.0))
    assert kl_in_reward(batch.with_rows(rows), 1.0).reward_U.tolist() == [0.0]
