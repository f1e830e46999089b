from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.learning.entropy import EntropyBand, EntropyHistory, SmoothingConfig, outside, phase_weight
from turnwise.trainers.learning.rows import Rows, pack

from ..fakes import Said, conversation


def rows_with(entropies: list[float]) -> Rows:
    rows = pack([conversation([Said((0, 1), tuple(range(len(entropies))))])])
    entropy_T = torch.zeros(len(rows)).masked_scatter(rows.mask, torch.tensor(entropies))
    return rows.with_logp_old(rows.logp_old, entropy_T)


@given(entropy=st.floats(0, 10), low=st.floats(0, 5), width=st.floats(0.1, 5))
def test_the_penalty_has_a_gradient_outside_only_and_it_leads_back(entropy: float, low: float, width: float) -> None:
    """EPO's released penalty is ``where(inside, 0, 0.1)``: its gradient is 0 everywhere."""
    h = torch.tensor(entropy, dtype=torch.float64, requires_grad=True)
    distance = outside(h, EntropyBand(low, low + width, 0.1))
    (slope,) = torch.autograd.grad(distance, h)
    distance = distance.detach()
    if low < entropy < low + width:
        assert (float(distance), float(slope)) == (0.0, 0.0)
    elif entropy < low:
        assert float(distance) == pytest.approx(low - entropy)
        assert float(slope) == -1, "descent raises an entropy that is too low"
    elif entropy > low + width:
        assert float(distance) == pytest.approx(entropy - low - width)
        assert float(slope) == 1, "and lowers one that is too high"


def test_the_band_fades_over_training() -> None:
    assert [phase_weight(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.8, 0.0])
    steps = [phase_weight(p / 100) for p in range(101)]
    assert steps == sorted(steps, reverse=True)
    assert max(a - b for a, b in itertools.pairwise(steps)) < 0.02, "without a jump"
    assert (phase_weight(-1), phase_weight(2)) == (1.0, 0.0)


def test_the_band_follows_the_mean_over_steps_and_each_step_counts_once() -> None:
    history = EntropyHistory()
    smoothing = SmoothingConfig(coef=0.5, low=0.8, high=1.5)
    assert smoothing.band(history, 0.0) is None, "nothing is known before the first step"
    history.record(rows_with([1.0, 3.0]))
    history.record(rows_with([4.0] * 7))
    assert history.mean == pytest.approx(3.0)
    band = smoothing.band(history, 0.5)
    assert band is not None
    assert (band.low, band.high, band.coef) == pytest.approx((2.4, 4.5, 0.4))
    assert smoothing.band(history, 1.0) is None
    history.record(rows_with([1.0]).select([]))
    assert history.steps == 2, "a step in which nobody said anything has no entropy"


def test_the_history_survives_a_checkpoint() -> None:
    history, again = EntropyHistory(), EntropyHistory()
    history.record(rows_with([0.1, 0.7]))
    again.load_state_dict(history.state_dict())
    for each in (history, again):
        each.record(rows_with([0.3]))
    assert again.mean == history.mean
