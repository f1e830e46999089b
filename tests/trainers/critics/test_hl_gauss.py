"""HL-Gauss against its closed form: normal probabilities of bins, their mean, and the gradient of a cross-entropy."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from scipy.stats import norm

from turnwise.tasks.rng import Rng
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.hl_gauss import Histogram, HistogramConfig
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic

from .turns import Bag, step

BINS = HistogramConfig(low=-2, high=3, bins=10)


@pytest.mark.parametrize("value", [-2.0, -1.3, 0.0, 0.25, 2.99])
def test_a_bin_has_the_share_of_the_cut_gaussian(value: float) -> None:
    histogram, deviation = Histogram(BINS), 0.75 * 0.5
    edges = [-2 + 0.5 * place for place in range(11)]
    below = [float(norm.cdf(edge, loc=value, scale=deviation)) for edge in edges]
    expected = [(after - before) / (below[-1] - below[0]) for before, after in pairwise(below)]
    assert histogram.distribution(torch.tensor(value)).tolist() == pytest.approx(expected, abs=1e-6)
    assert histogram.centres.tolist() == pytest.approx([-1.75 + 0.5 * place for place in range(10)])


def test_the_mean_is_the_value_away_from_the_ends_and_drawn_inwards_near_them() -> None:
    histogram = Histogram(BINS)
    values = torch.linspace(-0.6, 1.6, 23)
    found = histogram.mean(histogram.distribution(values).log())
    assert torch.allclose(found, values, atol=0.01)
    ends = histogram.mean(histogram.distribution(torch.tensor([-2.0, 3.0])).log())
    assert -2 < float(ends[0]) < -1.6
    assert 2.6 < float(ends[1]) < 3


def test_the_gradient_is_prediction_less_target() -> None:
    histogram, logits = Histogram(BINS), torch.randn(4, 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    target = torch.tensor([-1.0, 0.0, 1.0, 99.0])
    (slope,) = torch.autograd.grad(histogram.loss(logits, target).sum(), logits)
    assert torch.allclose(slope, logits.softmax(-1) - histogram.distribution(target), atol=1e-6)
    assert histogram.outside(target) == 0.25


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("kind", ["mc", "td"])
def test_a_critic_of_histograms_learns_returns(kind: str) -> None:
    """Two utterances of one state, worth −1 and 2, each drawn half of the time."""
    config = CriticConfig.model_validate(
        {"head": 32, "tau": 0.5, "histogram": {"low": -3, "high": 4, "bins": 28}, "optimizer": {"lr": 1e-2}}
    )
    critic = UtteranceCritic(Bag(), config, seed=1)
    batch = [step((1,), (2,), -1.0, returned=-1.0), step((1,), (3,), 2.0, returned=2.0)] * 8
    rule, rng = ArcherRule("mc" if kind == "mc" else "td", 1.0), Rng("test")
    for _ in range(150):
        fresh = [rng.pick([(2,), (3,)]) for _ in batch] if kind == "td" else None
        numbers = critic.update(batch, rule, fresh)
    assert numbers["critic/outside"] == 0
    q_2B = critic.q([(1,), (1,)], [(2,), (3,)])
    assert q_2B.mean(0).tolist() == pytest.approx([-1, 2], abs=0.15)
    assert critic.v([(1,)]).mean().item() == pytest.approx(0.5, abs=0.3)
    assert critic.advantage([(1,)], [(3,)]).item() > 1
    again = UtteranceCritic(Bag(), config, seed=2)
    again.load_state_dict(critic.state_dict())
    assert torch.equal(again.q([(1,), (1,)], [(2,), (3,)]), q_2B)
