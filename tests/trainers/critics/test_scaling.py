"""The scale of a value head: it may move, and no value does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from turnwise.trainers.critics.scaling import SMALLEST, TargetScale

targets = st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=6)


def scale_of(memory: float = 0.8) -> TargetScale:
    head = nn.Linear(3, 1)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    return TargetScale([head], memory=memory)


def follow(scale: TargetScale, values: list[float], weights: list[float] | None = None) -> None:
    scale.follow(torch.tensor(values), torch.tensor(weights or [1.0] * len(values)))


@given(targets, st.lists(targets, min_size=1, max_size=4))
def test_every_value_stays_what_it_was(first: list[float], later: list[list[float]]) -> None:
    """PopArt, arXiv 1602.07714, proposition 1: outputs are preserved precisely whenever the scale moves."""
    scale = scale_of()
    state = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    follow(scale, first)
    for each in later:
        before = scale.value(scale.heads[0](state)).detach()
        follow(scale, each)
        # 32-bit numbers are kept to their last digits, of the largest that takes part.
        size = float(before.abs().max()) + abs(scale.center) + 1
        assert torch.allclose(scale.value(scale.heads[0](state)), before, atol=2e-5 * size)


def test_the_first_scale_puts_every_value_at_the_mean() -> None:
    scale = scale_of()
    nn.init.zeros_(scale.heads[0].weight)
    nn.init.zeros_(scale.heads[0].bias)
    follow(scale, [-80.0, -60.0], [1.0, 3.0])
    assert scale.value(scale.heads[0](torch.randn(4, 3))).flatten().tolist() == pytest.approx([-65.0] * 4)
    assert scale.spread == pytest.approx((0.25 * 15**2 + 0.75 * 5**2) ** 0.5), "weighted as the loss is"


def test_moments_are_a_mean_whose_weights_fade() -> None:
    scale = scale_of(memory=0.5)
    follow(scale, [4.0])
    assert scale.center == 4.0, "the first batch counts wholly, not by 1 − memory"
    follow(scale, [10.0])
    assert scale.center == pytest.approx((0.25 * 4 + 0.5 * 10) / 0.75)
    assert scale.spread == pytest.approx(((0.25 * 16 + 0.5 * 100) / 0.75 - scale.center**2) ** 0.5)


def test_targets_all_alike_do_not_make_errors_infinite() -> None:
    scale = scale_of()
    follow(scale, [-100.0, -100.0])
    assert scale.spread == SMALLEST


@given(targets)
def test_inside_and_back(values: list[float]) -> None:
    scale = TargetScale([nn.Linear(1, 1)], -70.0, 30.0)
    assert scale.value(scale.inside(torch.tensor(values))).tolist() == pytest.approx(values, abs=1e-3)


def test_it_goes_on_from_its_state() -> None:
    one, other = scale_of(), scale_of()
    follow(one, [1.0, 5.0])
    other.load_state_dict(one.state_dict())
    other.heads[0].load_state_dict(one.heads[0].state_dict())
    for scale in (one, other):
        follow(scale, [-3.0, 8.0])
    assert one.state_dict() == other.state_dict()
    assert torch.equal(one.heads[0].weight, other.heads[0].weight)
