from __future__ import annotations

import math
from typing import Any

import pydantic
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turnwise.config import load_config
from turnwise.errors import ConfigError
from turnwise.trainers.learning.entropy import EntropyBand
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.loss import Diagnostics, loop_bounds
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.objective import LossConfig, Objective, objective_loss
from turnwise.trainers.learning.reference import Reference
from turnwise.trainers.learning.rows import Rows, pack

from ..fakes import Bigram, Said, conversation

BAND = EntropyBand(1.5, 1.7, 0.4)
EVERYTHING = Objective(
    is_mode="tis", kl_coef=0.3, kl_estimator="k3", entropy_coef=0.1, band=BAND, dual_clip=3.0, clip=(0.9, 1.1)
)


def rows_of(seed: int = 0, *, advantage: float = 1.0) -> Rows:
    """Three episodes, one with a rewritten context; scored by an old policy and a reference."""
    said = [
        [Said((0, 1), (2, 3)), Said((4,), (5, 6))],
        [Said((1,), (6,)), Said((2, 3), (4, 5), rewrites=True)],
        [Said((0, 0, 0), (1, 2, 3, 4))],
    ]
    rows = pack([conversation(each, name=str(i)) for i, each in enumerate(said)])
    rows = Learner(Bigram(seed=seed + 1), OptimizerConfig()).recompute_old(rows)
    rows = Reference.copy_of(Bigram(seed=seed + 2)).scored(rows)
    g = torch.Generator().manual_seed(seed)
    rows = rows.with_token_advantage(advantage * torch.randn(len(rows), generator=g))
    return rows.with_weight(normalizer(rows, "traj_mean"))


def loss_of(model: Bigram, rows: Rows, objective: Objective) -> tuple[Tensor, Diagnostics]:
    """The loss, detached, and what the kernel saw."""
    scores = score(model, rows, entropy_gradient=objective.needs_entropy_gradient)
    loss, seen = objective_loss(scores, rows, objective)
    return loss.detach(), seen


def gradient(model: Bigram, rows: Rows, objective: Objective) -> Tensor:
    scores = score(model, rows, entropy_gradient=objective.needs_entropy_gradient)
    return torch.autograd.grad(objective_loss(scores, rows, objective)[0], model.table)[0]


def by_hand(model: Bigram, rows: Rows, o: Objective) -> float:
    """The whole sum in plain arithmetic, token by token."""
    table = model.table.detach().double().log_softmax(-1)
    total = 0.0
    for t in rows.mask.nonzero()[:, 0].tolist():
        distribution = table[rows.ids[t - 1]]
        logp = float(distribution[rows.ids[t]])
        entropy = -float((distribution.exp() * distribution).sum())
        ratio, a = math.exp(logp - float(rows.logp_old[t])), float(rows.advantage[t])
        gain = min(ratio * a, min(max(ratio, o.clip[0]), o.clip[1]) * a)
        if o.dual_clip is not None and a < 0:
            gain = max(gain, o.dual_clip * a)
        if o.is_mode == "tis":
            gain *= min(math.exp(float(rows.logp_old[t] - rows.logp_behave[t])), o.is_cap)
        log_r = float(rows.logp_ref[t]) - logp
        kl = {"k2": log_r**2 / 2, "k3": math.exp(log_r) - 1 - log_r}[o.kl_estimator]
        paid = o.kl_coef * kl - o.entropy_coef * entropy
        if o.band is not None:
            paid += o.band.coef * (max(0.0, o.band.low - entropy) + max(0.0, entropy - o.band.high))
        total += float(rows.weight[t]) * (paid - gain)
    return total


@pytest.mark.parametrize(
    "objective",
    [Objective(), Objective(kl_coef=0.5), Objective(entropy_coef=0.2), Objective(band=BAND), EVERYTHING],
    ids=["plain", "kl", "entropy", "band", "everything"],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_is_the_sum_that_it_says(objective: Objective, seed: int) -> None:
    rows, model = rows_of(seed), Bigram(seed=seed)
    loss, seen = loss_of(model, rows, objective)
    assert float(loss) == pytest.approx(by_hand(model, rows, objective), rel=1e-4)
    parts = [v for name, v in seen.metrics().items() if name.startswith("loss_")]
    plain = by_hand(model, rows, Objective(**_without_penalties(objective)))
    assert float(loss) == pytest.approx(plain + sum(parts), rel=1e-4), "the terms that are reported add up"


def _without_penalties(o: Objective) -> dict[str, Any]:
    return {"clip": o.clip, "is_mode": o.is_mode, "dual_clip": o.dual_clip}


@pytest.mark.parametrize(
    ("objective", "wanted"),
    [
        (Objective(), (False, False)),
        (Objective(kl_coef=0.1), (True, False)),
        (Objective(entropy_coef=0.1), (True, True)),
        (Objective(entropy_coef=-0.1), (True, True)),
        (Objective(band=BAND), (True, True)),
    ],
)
def test_penalties_are_on_all_that_is_weighted(objective: Objective, wanted: tuple[bool, bool]) -> None:
    assert (objective.beyond_advantage, objective.needs_entropy_gradient) == wanted
    model = Bigram()
    update = Learner(model, OptimizerConfig()).step(rows_of(advantage=0.0), objective)
    assert update.stepped is wanted[0], "without advantage only penalties move the weights"


def test_an_entropy_bonus_flattens_and_the_band_brings_back() -> None:
    model, rows = Bigram(), rows_of(advantage=0.0)

    def entropy() -> float:
        return float(score(model, rows).entropy[rows.mask].mean())

    for objective, sign in (
        (Objective(entropy_coef=1.0), 1),
        (Objective(band=EntropyBand(1.8, 1.9, 1.0)), 1),
        (Objective(band=EntropyBand(0.1, 0.2, 1.0)), -1),
    ):
        before = entropy()
        learner = Learner(model, OptimizerConfig(lr=0.02))
        for _ in range(5):
            learner.step(rows, objective)
        assert (entropy() - before) * sign > 0


def test_inside_the_band_nothing_moves() -> None:
    update = Learner(Bigram(), OptimizerConfig()).step(rows_of(advantage=0.0), Objective(band=EntropyBand(0, 9, 1.0)))
    assert not update.stepped
    assert update.metrics["entropy_outside"] == 0


def test_a_kl_penalty_leads_back_to_the_reference() -> None:
    model, reference = Bigram(seed=0), Reference.copy_of(Bigram(seed=2))
    learner = Learner(model, OptimizerConfig(lr=0.05))
    rows = reference.scored(rows_of(advantage=0.0))
    seen = [learner.step(rows, Objective(kl_coef=1.0)).metrics for _ in range(30)]
    assert seen[-1]["kl_ref_k3"] < 0.2 * seen[0]["kl_ref_k3"]
    assert seen[0]["loss"] == pytest.approx(seen[0]["loss_kl"])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 50),
    budget=st.integers(1, 40),
    level=st.sampled_from(["token", "turn", "trajectory"]),
    over=st.sampled_from(["token", "turn", "trajectory"]),
    normalised=st.booleans(),
)
def test_micro_batches_change_neither_loss_nor_gradient(
    seed: int, budget: int, level: Any, over: Any, normalised: bool
) -> None:
    """Trap 8, for the whole objective, penalties and corrections per segment included."""
    objective = Objective(
        ratio_level=level, length_normalized=normalised and level != "token", is_mode="mis", is_level=over, is_cap=5.0,
        kl_coef=0.3, entropy_coef=0.1, band=BAND,
    )  # fmt: skip
    rows, model = rows_of(seed), Bigram(seed=seed)
    whole, seen = loss_of(model, rows, objective)
    parts = rows.microbatches(budget, whole=objective.whole)
    halves = [loss_of(model, part, objective) for part in parts]
    assert float(whole) == pytest.approx(sum(float(loss) for loss, _ in halves), rel=1e-4, abs=1e-5)
    summed = torch.stack([gradient(model, part, objective) for part in parts]).sum(0)
    assert torch.allclose(gradient(model, rows, objective), summed, atol=1e-5)
    joined = Diagnostics.join([each for _, each in halves]).metrics()
    assert joined == pytest.approx(seen.metrics(), rel=1e-4, abs=1e-6)


def test_what_the_model_says_of_context_has_no_gradient() -> None:
    """Only states from which a token was sampled have a gradient, whatever the penalty (trap 5)."""
    rows, model = rows_of(), Bigram()
    states = set(rows.ids[:-1][rows.mask[1:]].tolist())
    got = gradient(model, rows, EVERYTHING)
    assert {state for state in range(7) if bool(got[state].any())} <= states
    assert len(states) < 7, "or nothing was tested"


# -- settings -------------------------------------------------------------------------------------------------------


def test_loops_settings_can_be_named() -> None:
    objective = LossConfig(ratio_level="turn", bounds="loop", clip_low=0.1, clip_high=0.1, max_kl=20).objective()
    assert objective == Objective(ratio_level="turn", clip=loop_bounds(0.1), max_kl=20, dual_clip=3)


def test_every_setting_arrives() -> None:
    config = LossConfig.model_validate(
        {
            "ratio_level": "trajectory", "length_normalized": True, "kind": "ppo", "clip_low": 0.1, "clip_high": 0.3,
            "dual_clip": 3, "is_mode": "mis", "is_level": "turn", "is_cap": 4, "is_floor": 0.5, "entropy_coef": 0.01,
            "kl": {"coef": 0.2, "estimator": "k3"}, "max_kl": 1,
        }
    )  # fmt: skip
    assert config.objective(BAND) == Objective(
        ratio_level="trajectory", length_normalized=True, kind="ppo", clip=(0.9, 1.3), dual_clip=3, is_mode="mis",
        is_level="turn", is_cap=4, is_floor=0.5, entropy_coef=0.01, kl_coef=0.2, kl_estimator="k3", max_kl=1, band=BAND,
    )  # fmt: skip


def test_a_penalty_in_the_reward_is_not_in_the_loss_too() -> None:
    objective = LossConfig.model_validate({"kl": {"coef": 0.2, "where": "reward"}}).objective()
    assert not objective.needs_reference
    assert not objective.beyond_advantage


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"clip_low": 1.5}, "negative; use at most 1"),
        ({"length_normalized": True}, "a token has no length"),
        ({"dual_clip": 3.0, "kind": "cispo"}, "has no use for it"),
        ({"is_floor": 0.5, "is_mode": "tis"}, "masks nothing"),
        ({"kl": {"coef": 0.1, "estimator": "k1"}}, "its expected gradient is 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        LossConfig.model_validate(given_)


def test_such_an_error_is_one_line_for_a_person() -> None:
    with pytest.raises(ConfigError, match="expected gradient is 0") as caught:
        load_config(LossConfig, None, ["kl.coef=0.1", "kl.estimator=k1"])
    assert "\n" not in str(caught.value)
