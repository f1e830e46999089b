from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.trainers.learning.loss import Diagnostics, Kind, Level, loop_bounds, policy_loss, ppo_bounds

LEVELS: list[Level] = ["token", "turn", "trajectory"]
KINDS: list[Kind] = ["ppo", "cispo", "reinforce"]

numbers = st.floats(-3, 3, width=32)


def inputs(size: int, seed: int) -> dict[str, Any]:
    g = torch.Generator().manual_seed(seed)
    logp = -torch.rand(size, generator=g, dtype=torch.float64) * 3
    return {
        "logp": logp,
        "logp_old": logp + torch.randn(size, generator=g, dtype=torch.float64) * 0.3,
        "logp_behave": logp + torch.randn(size, generator=g, dtype=torch.float64) * 0.3,
        "advantage": torch.randn(size, generator=g, dtype=torch.float64),
        "weight": torch.rand(size, generator=g, dtype=torch.float64),
        "mask": torch.rand(size, generator=g) < 0.7,
    }


def test_bounds() -> None:
    assert loop_bounds(0.25) == (0.8, 1.25)
    assert ppo_bounds(0.2, 0.3) == pytest.approx((0.8, 1.3))
    low, high = loop_bounds(0.1)
    assert math.log(low) == pytest.approx(-math.log(high)), "LOOP's bounds are symmetric in log space"


@given(logp=numbers, old=numbers, advantage=numbers, weight=st.floats(0.1, 2))
def test_ppo_is_the_textbook_formula(logp: float, old: float, advantage: float, weight: float) -> None:
    new, prox, credit, counts = (torch.tensor([v], dtype=torch.float64) for v in (logp, old, advantage, weight))
    loss, _ = policy_loss(new, prox, prox, credit, counts, torch.tensor([True]), clip=(0.8, 1.25))
    ratio = math.exp(logp - old)
    wanted = -weight * min(ratio * advantage, min(max(ratio, 0.8), 1.25) * advantage)
    assert float(loss) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("advantage", [2.0, -2.0])
def test_a_clipped_token_has_no_gradient_under_ppo_and_one_under_cispo(advantage: float) -> None:
    old = torch.zeros(1)
    far = torch.tensor([1.0 if advantage > 0 else -1.0])
    for kind, moves in (("ppo", False), ("cispo", True)):
        logp = far.clone().requires_grad_()
        loss, seen = policy_loss(
            logp,
            old,
            old,
            torch.tensor([advantage]),
            torch.ones(1),
            torch.tensor([True]),
            kind=kind,  # type: ignore[arg-type]
        )
        loss.backward()  # type: ignore[no-untyped-call]
        assert logp.grad is not None
        assert bool(logp.grad.any()) is moves
        assert bool(seen.clipped_high) is (advantage > 0)
        assert bool(seen.clipped_low) is (advantage < 0)


@pytest.mark.parametrize("level", ["turn", "trajectory"])
def test_a_segment_shares_the_product_of_its_ratios(level: Level) -> None:
    logp = torch.tensor([0.1, 0.2, 0.4])
    _, seen = policy_loss(
        logp,
        torch.zeros(3),
        torch.zeros(3),
        torch.ones(3),
        torch.ones(3),
        torch.tensor([True, True, True]),
        torch.tensor([5, 5, 9]),
        level=level,
    )
    assert seen.ratio.tolist() == pytest.approx([math.exp(0.3), math.exp(0.3), math.exp(0.4)])


def test_trajectory_level_with_mean_weights_is_one_clipped_term_per_trajectory() -> None:
    given = inputs(6, 3) | {"mask": torch.ones(6, dtype=torch.bool)}
    index = torch.tensor([0, 0, 0, 0, 1, 1])
    weight = torch.tensor([1 / 4] * 4 + [1 / 2] * 2, dtype=torch.float64) / 2
    advantage = torch.tensor([1.5] * 4 + [-0.7] * 2, dtype=torch.float64)
    loss, _ = policy_loss(**(given | {"weight": weight, "advantage": advantage}), index=index, level="trajectory")
    wanted = 0.0
    for trajectory, a in ((0, 1.5), (1, -0.7)):
        here = index == trajectory
        ratio = float((given["logp"] - given["logp_old"])[here].sum().exp())
        wanted -= min(ratio * a, min(max(ratio, 0.8), 1.2) * a) / 2
    assert float(loss) == pytest.approx(wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**16), size=st.integers(1, 30), cut=st.integers(0, 30))
def test_the_loss_of_a_batch_is_the_sum_over_its_parts(
    kind: Kind, level: Level, seed: int, size: int, cut: int
) -> None:
    given_ = inputs(size, seed)
    index = torch.arange(size) // 3
    split = min(cut // 3 * 3, size)
    whole, seen = policy_loss(**given_, index=index, level=level, kind=kind, is_mode="tis")
    parts = [
        policy_loss(**{k: v[s] for k, v in given_.items()}, index=index[s], level=level, kind=kind, is_mode="tis")
        for s in (slice(0, split), slice(split, size))
    ]
    assert float(whole) == pytest.approx(float(sum(loss for loss, _ in parts)), abs=1e-9)
    assert Diagnostics.join([part for _, part in parts]).metrics() == pytest.approx(seen.metrics())


def test_truncated_importance_sampling_is_exact_on_a_toy_with_a_known_sampler() -> None:
    """E_μ[min(π/μ, C) A] with all actions enumerated; with C above every ratio this is E_π[A] (trap 16)."""
    pi, mu = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.2, 0.3, 0.5])
    advantage = torch.tensor([1.0, -2.0, 3.0])
    for cap in (100.0, 2.0):
        loss, _ = policy_loss(
            pi.log(), pi.log(), mu.log(), advantage, mu, torch.ones(3, dtype=torch.bool), is_mode="tis", is_cap=cap
        )
        wanted = float((mu * (pi / mu).clamp(max=cap) * advantage).sum())
        assert float(-loss) == pytest.approx(wanted, abs=1e-6)
    assert wanted != pytest.approx(float((pi * advantage).sum())), "the cap of 2 binds, at a known bias"


def test_the_tail_is_logged_because_the_mean_hides_it() -> None:
    """One token in fifty is off by e^3 while mean KL stays small (trap 16)."""
    old = torch.zeros(100)
    behave = old.clone()
    behave[:2] = -3.0
    ones = torch.ones(100)
    _, seen = policy_loss(old, old, behave, ones, ones, ones.bool())
    metrics = seen.metrics()
    assert abs(float((old - behave).mean())) < 0.1
    assert metrics["mismatch_p99"] == pytest.approx(3.0, rel=0.05)
    assert metrics["mismatch_ess"] < 0.25
    assert metrics["ess"] == pytest.approx(1.0)


@pytest.mark.parametrize("count", [1, 2, 99, pytest.param((1 << 24) + 1, marks=pytest.mark.shift)])
def test_the_tail_of_any_number_of_tokens_is_measured(count: int) -> None:
    """torch.quantile refuses more than 2^24 numbers; a large batch has more sampled tokens."""
    off = torch.arange(count, dtype=torch.float32) / count
    none = torch.zeros_like(off)
    seen = Diagnostics(none, none + 1, none.bool(), none.bool(), -off).metrics()
    assert seen["mismatch_p99"] == pytest.approx(0.99 * (count - 1) / count, abs=1e-6)
    assert seen["ratio_p99"] == 1.0


@pytest.mark.parametrize("extreme", [1e4, -1e4])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("level", LEVELS)
def test_absurd_ratios_stay_finite(extreme: float, advantage: float, level: Level) -> None:
    logp = torch.full((4,), extreme, requires_grad=True)
    ones = torch.ones(4)
    loss, seen = policy_loss(logp, 0 * ones, 0 * ones, advantage * ones, ones, ones.bool(), ones.long(), level=level)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logp.grad is not None
    assert torch.isfinite(loss)
    assert torch.isfinite(logp.grad).all()
    assert 0 <= seen.metrics()["ess"] <= 1 + 1e-9


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"clip": (1.1, 1.2)}, "do not enclose 1"),
        ({"clip": (0.2, 0.2)}, "do not enclose 1"),
        ({"is_cap": 0.5}, "below 1"),
        ({"level": "word"}, "level 'word' is unknown"),
        ({"kind": "dpo"}, "kind 'dpo' is unknown"),
        ({"level": "turn"}, "needs the index of the turn"),
        ({"length_normalized": True}, "level is token"),
        ({"dual_clip": 0.9}, "must be above 1"),
        ({"dual_clip": 3.0, "kind": "cispo"}, "only ppo has a use for it"),
        ({"is_mode": "mis", "is_floor": 1.5}, r"is_floor 1.5 is not in \[0, 1\]"),
    ],
)
def test_settings_that_make_no_sense_are_named(kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        policy_loss(**inputs(3, 0), **kwargs)  # type: ignore[arg-type]
