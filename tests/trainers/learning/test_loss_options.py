"""Options of the kernel beside its level: other ratios, other bounds, corrections for another sampler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turnwise.trainers.learning.loss import Correction, Diagnostics, Kind, Level, policy_loss, ppo_bounds
from turnwise.trainers.learning.objective import LossConfig

seeds = st.integers(0, 2**16)


def sample(seed: int, size: int = 12) -> dict[str, Any]:
    """Tokens of two trajectories of two turns each, some of them context."""
    g = torch.Generator().manual_seed(seed)

    def normal(scale: float) -> Tensor:
        return torch.randn(size, generator=g, dtype=torch.float64) * scale

    logp = -torch.rand(size, generator=g, dtype=torch.float64) * 3
    old = logp + normal(0.3)
    return {
        "logp": logp,
        "logp_old": old,
        "logp_behave": old + normal(0.5),
        "advantage": normal(1.0),
        "weight": torch.rand(size, generator=g, dtype=torch.float64),
        "mask": torch.rand(size, generator=g) < 0.8,
    }


def turns(size: int = 12) -> Tensor:
    return torch.arange(size) * 4 // size


def trajectories(size: int = 12) -> Tensor:
    return torch.arange(size) * 2 // size


def gradient(loss: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    leaf = at.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]


# -- GSPO -----------------------------------------------------------------------------------------------------------


@given(seed=seeds)
def test_a_length_normalized_ratio_is_the_geometric_mean(seed: int) -> None:
    """GSPO, arXiv 2507.18071, eq. 7: s = (π(y)/π_old(y))^(1/|y|), and |y| counts sampled tokens only."""
    given_ = sample(seed)
    _, seen = policy_loss(**given_, index=trajectories(), level="trajectory", length_normalized=True)
    wanted = []
    for trajectory in (0, 1):
        here = given_["mask"] & (trajectories() == trajectory)
        logs = (given_["logp"] - given_["logp_old"])[here]
        wanted += [math.exp(float(logs.sum()) / len(logs))] * len(logs)
    assert seen.ratio.tolist() == pytest.approx(wanted)


@given(seed=seeds, advantage=st.floats(-2, 2).filter(lambda a: abs(a) > 1e-3))
def test_the_gradient_of_gspo_is_the_papers(seed: int, advantage: float) -> None:
    """2507.18071, eq. 10: ∇ = (1/G) Σ_i s_i A_i (1/|y_i|) Σ_t ∇ log π(y_t), unclipped; by central differences too."""
    given_ = sample(seed) | {"mask": torch.ones(12, dtype=torch.bool)}
    given_ |= {"advantage": torch.full((12,), advantage, dtype=torch.float64)}
    given_ |= {"weight": torch.full((12,), 1 / 6 / 2, dtype=torch.float64)}  # traj_mean of G = 2 of 6 tokens each

    def loss(logp: Tensor) -> Tensor:
        options: dict[str, Any] = {"level": "trajectory", "length_normalized": True, "clip": (0.0, 1e9)}
        return policy_loss(**(given_ | {"logp": logp}), index=trajectories(), **options)[0]

    log_ratio = (given_["logp"] - given_["logp_old"]).view(2, 6)
    s = log_ratio.mean(1).exp()
    wanted = -(s * advantage / 2 / 6).repeat_interleave(6)
    got = gradient(loss, given_["logp"])
    assert torch.allclose(got, wanted, rtol=1e-9)
    step = torch.zeros(12, dtype=torch.float64)
    step[3] = 1e-5
    numeric = (loss(given_["logp"] + step) - loss(given_["logp"] - step)) / 2e-5
    assert float(numeric) == pytest.approx(float(got[3]), rel=1e-5)


def test_a_clipped_sequence_gives_none_of_its_tokens_a_gradient() -> None:
    """GSPO clips sequences, not tokens: the one token that moved takes the others along, or none does."""
    old = torch.zeros(4)
    for moved, gets in ((0.2, False), (0.0, True)):
        logp = torch.tensor([moved, 0.0, 0.0, 0.0])

        def loss(logp: Tensor, old: Tensor = old) -> Tensor:
            ones = torch.ones(4)
            options: dict[str, Any] = {"level": "turn", "length_normalized": True, "clip": ppo_bounds(3e-4, 4e-4)}
            return policy_loss(logp, old, old, ones, ones, ones.bool(), torch.zeros(4).long(), **options)[0]

        assert gradient(loss, logp).ne(0).tolist() == [gets] * 4


def test_the_same_drift_per_token_is_the_same_ratio_at_any_length() -> None:
    ratios = {}
    for normalised in (True, False):
        for length in (2, 50):
            ones = torch.ones(length)
            _, seen = policy_loss(
                0.01 * ones, 0 * ones, 0 * ones, ones, ones, ones.bool(), ones.long(),
                level="trajectory", length_normalized=normalised,
            )  # fmt: skip
            ratios[normalised, length] = float(seen.ratio[0])
    assert ratios[True, 2] == pytest.approx(ratios[True, 50])
    assert ratios[False, 50] == pytest.approx(math.exp(0.5), rel=1e-5), "the product is clipped for its length alone"


# -- bounds ---------------------------------------------------------------------------------------------------------


@given(seed=seeds, low=st.floats(0, 1), high=st.floats(0, 8))
def test_cispo_multiplies_log_pi_by_a_constant(seed: int, low: float, high: float) -> None:
    """MiniMax-M1, arXiv 2506.13585, eq. 4 and 5: the gradient is sg(clip(ρ)) A ∇ log π on every token."""
    given_ = sample(seed)
    got = gradient(
        lambda logp: policy_loss(**(given_ | {"logp": logp}), kind="cispo", clip=(1 - low, 1 + high))[0], given_["logp"]
    )
    ratio = (given_["logp"] - given_["logp_old"]).exp().clamp(1 - low, 1 + high)
    wanted = torch.where(given_["mask"], -given_["weight"] * ratio * given_["advantage"], 0.0)
    assert torch.allclose(got, wanted)


@given(seed=seeds)
def test_one_sided_cispo_has_no_lower_bound(seed: int) -> None:
    """ScaleRL, arXiv 2510.13786: −sg(min(ρ, ε)) A log π."""
    given_ = sample(seed)
    loss, seen = policy_loss(**given_, kind="cispo", clip=(0.0, 1.1))
    ratio = (given_["logp"] - given_["logp_old"]).exp().clamp(max=1.1)
    terms = (given_["weight"] * ratio * given_["advantage"] * given_["logp"])[given_["mask"]]
    assert float(loss) == pytest.approx(-float(terms.sum()))
    assert not seen.clipped_low.any()


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [
        (1.25, 1.0, True),  # above 1 + low, below 1 + high: clip-higher lets it grow further
        (1.30, 1.0, False),
        (0.75, -1.0, False),
        (0.85, -1.0, True),
        (1.30, -1.0, True),  # a bound never keeps a ratio from coming back
        (0.75, 1.0, True),
    ],
)
def test_bounds_may_be_asymmetric(ratio: float, advantage: float, moves: bool) -> None:
    """Clip-higher: DAPO, arXiv 2503.14476, eq. 10."""
    zero, one = torch.zeros(1), torch.ones(1)
    got = gradient(
        lambda logp: policy_loss(logp, zero, zero, advantage * one, one, one.bool(), clip=ppo_bounds(0.2, 0.28))[0],
        torch.tensor([math.log(ratio)]),
    )
    assert bool(got.any()) is moves


@given(ratio=st.floats(0.01, 50), advantage=st.floats(-3, 3), c=st.floats(1.1, 5))
def test_dual_clip_is_the_papers_formula(ratio: float, advantage: float, c: float) -> None:
    """Ye et al., arXiv 1912.09729, eq. 5: max(min(ρA, clip(ρ)A), cA) where A < 0."""
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    logp = torch.tensor([math.log(ratio)], dtype=torch.float64)
    loss, seen = policy_loss(logp, zero, zero, advantage * one, one, one.bool(), dual_clip=c)
    single = min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
    bound = advantage < 0 and single < c * advantage
    assert float(-loss) == pytest.approx(c * advantage if bound else single)
    if single != pytest.approx(c * advantage):  # at the bound itself, rounding of exp(log ratio) decides
        assert bool(seen.metrics()["clip_dual"]) is bound


def test_dual_clip_ends_the_pull_of_a_bad_action_that_became_likely() -> None:
    zero, one = torch.zeros(1), torch.ones(1)
    for c, moves in ((None, True), (3.0, False)):
        got = gradient(
            lambda logp, c=c: policy_loss(logp, zero, zero, -one, one, one.bool(), dual_clip=c)[0],  # type: ignore[misc]
            torch.tensor([math.log(10.0)]),
        )
        assert bool(got.any()) is moves


@pytest.mark.parametrize("level", ["turn", "trajectory"])
@pytest.mark.parametrize(("tokens", "pull", "size"), [(1000, 2.2e7, math.exp(10)), (20_000, 0.0, math.exp(20))])
def test_a_long_action_that_became_likelier_does_not_own_the_update(
    level: Level, tokens: int, pull: float, size: float
) -> None:
    """Each token is .01 nat likelier and A = −1; without a bound the gradient overflows, and vanishes beyond e²⁰."""
    short = 10  # tokens of another action, which became .01 nat likelier, too
    index = torch.cat([torch.zeros(tokens), torch.ones(short)]).long()
    zero, one = torch.zeros(tokens + short, dtype=torch.float64), torch.ones(tokens + short, dtype=torch.float64)
    logp, weight = 0.01 * one, one / tokens

    def kernel(logp: Tensor, c: float | None) -> tuple[Tensor, Diagnostics]:
        return policy_loss(logp, zero, zero, -one, weight, one.bool(), index, level=level, dual_clip=c)

    others = short / tokens * math.exp(0.1)
    unbounded = gradient(lambda logp: kernel(logp, None)[0], logp)
    assert float(unbounded[:tokens].abs().sum()) == pytest.approx(pull, rel=0.01)
    assert float(kernel(logp, None)[0]) == pytest.approx(size + others)
    bounded = gradient(lambda logp: kernel(logp, 3.0)[0], logp)
    assert not bounded[:tokens].any(), "the clip decides"
    assert bounded[tokens:].tolist() == pytest.approx([others] * short), "and the other action keeps its pull"
    loss, seen = kernel(logp, 3.0)
    assert float(loss) == pytest.approx(3 + others)
    assert seen.metrics()["clip_dual"] == pytest.approx(tokens / (tokens + short))


def test_dual_clip_is_on_where_the_surrogate_is_ppos() -> None:
    assert LossConfig().objective().dual_clip == 3.0
    for kind in ("cispo", "reinforce"):
        assert LossConfig.model_validate({"kind": kind}).objective().dual_clip is None
    stored = LossConfig.model_validate({"kind": "cispo"}).model_dump(mode="json")
    assert LossConfig.model_validate(stored).dual_clip is None, "a stored configuration can be read again"


# -- another sampler ------------------------------------------------------------------------------------------------


@given(seed=seeds)
def test_decoupled_ppo_is_truncation_that_never_binds(seed: int) -> None:
    """AReaL, arXiv 2505.24298, eq. 5: (π_prox/π_behave) · min(u A, clip(u) A) with u = π/π_prox."""
    given_ = sample(seed)
    prox, behave = given_["logp_old"], given_["logp_behave"]

    def direct(logp: Tensor) -> Tensor:
        u, a = (logp - prox).exp(), given_["advantage"]
        terms: Tensor = given_["weight"] * (prox - behave).exp() * torch.minimum(u * a, u.clamp(0.8, 1.2) * a)
        return -terms[given_["mask"]].sum()

    def kernel(logp: Tensor) -> Tensor:
        return policy_loss(**(given_ | {"logp": logp}), is_mode="tis", is_cap=1e9)[0]

    assert float(kernel(given_["logp"])) == pytest.approx(float(direct(given_["logp"])))
    assert torch.allclose(gradient(kernel, given_["logp"]), gradient(direct, given_["logp"]))


@given(seed=seeds, cap=st.floats(1, 2), floor=st.floats(0, 1))
@pytest.mark.parametrize("over", ["token", "turn", "trajectory"])
@pytest.mark.parametrize("mode", ["tis", "mis"])
def test_corrections_by_the_book(mode: Correction, over: Level, seed: int, cap: float, floor: float) -> None:
    """min(w, cap), or w within [floor, cap] and else 0; w of the token or the product over its segment."""
    given_ = sample(seed)
    index = {"token": None, "turn": turns(), "trajectory": trajectories()}[over]
    loss, seen = policy_loss(**given_, is_mode=mode, is_cap=cap, is_floor=floor, is_index=index)
    total, hit, count = 0.0, 0, 0
    for t in range(12):
        if not given_["mask"][t]:
            continue
        segment = given_["mask"] & (index == index[t]) if index is not None else torch.arange(12) == t
        w = math.exp(float((given_["logp_old"] - given_["logp_behave"])[segment].sum()))
        beyond = w > cap or (mode == "mis" and w < floor)
        f = w if not beyond else (cap if mode == "tis" else 0.0)
        ratio, a = math.exp(float((given_["logp"] - given_["logp_old"])[t])), float(given_["advantage"][t])
        total -= float(given_["weight"][t]) * f * min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
        hit, count = hit + beyond, count + 1
    assert float(loss) == pytest.approx(total, abs=1e-12)
    if count:
        assert seen.metrics()[f"{mode}_share"] == pytest.approx(hit / count)


def test_a_masked_token_leaves_the_weight_of_the_others_alone() -> None:
    """AReaL keeps the denominator under rejection (traps.md, trap 21)."""
    zeros, ones = torch.zeros(4), torch.ones(4)
    behave = torch.tensor([-5.0, 0.0, 0.0, 0.0])  # π_old/π_behave = e⁵ on the first
    got = gradient(
        lambda logp: policy_loss(logp, zeros, behave, ones, ones / 4, ones.bool(), is_mode="mis")[0], zeros.clone()
    )
    assert got.tolist() == pytest.approx([0, -0.25, -0.25, -0.25])


def test_masked_importance_sampling_is_exact_on_a_toy_with_a_known_sampler() -> None:
    """E_μ[w 1(w ≤ C) A] with all actions enumerated (trap 16)."""
    pi, mu = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.2, 0.3, 0.5])
    advantage = torch.tensor([1.0, -2.0, 3.0])
    loss, _ = policy_loss(pi.log(), pi.log(), mu.log(), advantage, mu, torch.ones(3).bool(), is_mode="mis", is_cap=2.0)
    assert float(-loss) == pytest.approx(0.2 * -2.0 + 0.1 * 3.0, abs=1e-6), "the first, of w = 3.5, is out"


# -- laws of every setting ------------------------------------------------------------------------------------------

options = st.fixed_dictionaries(
    {
        "level": st.sampled_from(["token", "turn", "trajectory"]),
        "normalised": st.booleans(),
        "kind": st.sampled_from(["ppo", "cispo", "reinforce"]),
        "dual": st.booleans(),
        "is_mode": st.sampled_from(["none", "tis", "mis"]),
        "over": st.sampled_from(["token", "turn", "trajectory"]),
    }
)


def run(given_: dict[str, Any], chosen: dict[str, Any], part: slice = slice(None)) -> tuple[Tensor, Diagnostics]:
    level: Level = chosen["level"]
    kind: Kind = chosen["kind"]
    index = {"token": None, "turn": turns(), "trajectory": trajectories()}
    over = index[chosen["over"]]
    mine = index[level]
    return policy_loss(
        **{name: value[part] for name, value in given_.items()},
        index=mine[part] if mine is not None else None,
        level=level,
        length_normalized=chosen["normalised"] and level != "token",
        kind=kind,
        dual_clip=3.0 if chosen["dual"] and kind == "ppo" else None,
        is_mode=chosen["is_mode"],
        is_index=over[part] if over is not None else None,
    )


@pytest.mark.slow
@settings(max_examples=200)
@given(seed=seeds, chosen=options)
def test_whole_trajectories_may_be_computed_apart(seed: int, chosen: dict[str, Any]) -> None:
    given_ = sample(seed)
    whole, seen = run(given_, chosen)
    halves = [run(given_, chosen, part) for part in (slice(0, 6), slice(6, 12))]
    assert float(whole) == pytest.approx(float(sum(loss for loss, _ in halves)), abs=1e-9)
    if seen.log_ratio.numel():
        assert Diagnostics.join([part for _, part in halves]).metrics() == pytest.approx(seen.metrics())


@pytest.mark.slow
@settings(max_examples=200)
@given(seed=seeds, chosen=options, junk=st.sampled_from([math.nan, math.inf, 1e30]))
def test_what_was_not_sampled_has_no_say(seed: int, chosen: dict[str, Any], junk: float) -> None:
    """Trap 5: exactly no gradient on context, and its numbers are never looked at."""
    given_ = sample(seed)
    spoilt = {
        name: value if name == "mask" else torch.where(given_["mask"], value, junk) for name, value in given_.items()
    }
    got = gradient(lambda logp: run(spoilt | {"logp": logp}, chosen)[0], spoilt["logp"])
    assert torch.equal(got, gradient(lambda logp: run(given_ | {"logp": logp}, chosen)[0], given_["logp"]))
    assert not got[~given_["mask"]].any()


@pytest.mark.slow
@settings(max_examples=200)
@given(seed=seeds, chosen=options, far=st.sampled_from([1e4, -1e4]), at=st.sampled_from(["logp_old", "logp_behave"]))
def test_extreme_ratios_stay_finite(seed: int, chosen: dict[str, Any], far: float, at: str) -> None:
    given_ = sample(seed) | {at: torch.full((12,), far, dtype=torch.float64)}
    loss, seen = run(given_, chosen)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient(lambda logp: run(given_ | {"logp": logp}, chosen)[0], given_["logp"])).all()
    assert all(math.isfinite(value) for value in seen.metrics().values())
