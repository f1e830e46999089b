from __future__ import annotations

from pathlib import Path

import pytest
import torch

from turnwise.errors import DivergedError
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.objective import Objective
from turnwise.trainers.learning.rows import Rows, pack

from ..fakes import Bigram, Said, conversation


def rows_of(pairs: list[tuple[int, float]]) -> Rows:
    """Episodes of one action token each, from state 1, with these advantages."""
    rows = pack([conversation([Said((0, 1), (action,))], name=str(i)) for i, (action, _) in enumerate(pairs)])
    rows = rows.with_advantage(torch.tensor([advantage for _, advantage in pairs]))
    return rows.with_weight(normalizer(rows, "traj_mean"))


def probability(model: Bigram, action: int) -> float:
    return float(model.table.detach()[1].softmax(-1)[action])


def test_what_did_better_becomes_more_likely() -> None:
    model = Bigram()
    learner = Learner(model, OptimizerConfig(lr=0.05))
    good, bad = probability(model, 2), probability(model, 3)
    for _ in range(5):
        learner.step(learner.recompute_old(rows_of([(2, 1.0), (3, -1.0)])), Objective(clip=(0.0, 1e9)))
    assert probability(model, 2) > good
    assert probability(model, 3) < bad


def test_cloning_raises_the_likelihood_of_what_was_shown() -> None:
    model = Bigram()
    learner = Learner(model, OptimizerConfig(lr=0.3))
    rows = rows_of([(4, 0.0), (4, 0.0), (5, 0.0)])
    losses = [learner.clone(rows).metrics["loss"] for _ in range(60)]
    assert losses[-1] < losses[0]
    assert probability(model, 4) == pytest.approx(2 / 3, abs=0.05), "the maximum of the likelihood is the frequency"


def test_an_iteration_that_moved_too_far_is_refused() -> None:
    model = Bigram()
    learner = Learner(model, OptimizerConfig(lr=1.0))
    rows = learner.recompute_old(rows_of([(2, 1.0), (3, -1.0)]))
    assert learner.step(rows, Objective(max_kl=0.5)).stepped, "at first the policy is where it was"
    before = model.table.detach().clone()
    update = learner.step(rows, Objective(max_kl=1e-6))
    assert (update.stepped, update.aborted) == (False, True)
    assert torch.equal(model.table, before)
    assert update.metrics["kl_episode"] > 1e-6


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_with_the_batch_saved(tmp_path: Path, poison: float) -> None:
    model = Bigram()
    learner = Learner(model, OptimizerConfig(), dump=tmp_path / "run" / "diverged.pt")
    rows = learner.recompute_old(rows_of([(2, 1.0), (3, -1.0)]))
    before = model.table.detach().clone()
    rows.advantage[2] = poison
    with pytest.raises(DivergedError, match=r"after 0 updates .*diverged\.pt") as caught:
        learner.step(rows, Objective())
    assert "\n" not in str(caught.value)
    assert torch.equal(model.table, before), "the weights are as before"
    saved = torch.load(tmp_path / "run" / "diverged.pt", weights_only=True)
    assert torch.equal(saved["ids"], rows.ids)


def test_gradients_are_cut_to_the_norm() -> None:
    model = Bigram()
    learner = Learner(model, OptimizerConfig(max_grad_norm=1e-3))
    assert learner.clone(rows_of([(2, 0.0)])).metrics["grad_norm"] > 1e-3, "what is logged is the norm before"
    assert learner.model is model


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (OptimizerConfig(lr=1.0), [1.0] * 5),
        (OptimizerConfig(lr=1.0, warmup=2), [0.5, 1.0, 1.0, 1.0, 1.0]),
        (OptimizerConfig(lr=1.0, warmup=1, schedule="linear", total=5), [1.0, 1.0, 0.75, 0.5, 0.25]),
        (OptimizerConfig(lr=1.0, schedule="linear"), [1.0] * 5),
    ],
)
def test_learning_rates(options: OptimizerConfig, wanted: list[float]) -> None:
    assert [options.rate(update) for update in range(5)] == wanted


def test_a_schedule_ends_with_the_run_unless_it_says_when() -> None:
    assert OptimizerConfig().until(12).total == 12
    assert OptimizerConfig(total=7).until(12).total == 7, "a named total stays"


def test_the_optimizer_is_what_the_settings_say() -> None:
    options = OptimizerConfig(lr=0.25, betas=(0.5, 0.75), weight_decay=0.125)
    (group,) = options.adamw(Bigram().parameters()).param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.25, (0.5, 0.75), 0.125)


def test_a_learner_continues_bitwise_from_its_state() -> None:
    def learner(model: Bigram) -> Learner:
        return Learner(model, OptimizerConfig(lr=0.1, warmup=4))

    rows = rows_of([(2, 1.0), (3, -1.0), (4, 0.5)])
    straight, half = Bigram(), Bigram()
    whole, first = learner(straight), learner(half)
    for _ in range(6):
        whole.clone(rows)
    for _ in range(3):
        first.clone(rows)
    second = learner(half)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        second.clone(rows)
    assert torch.equal(straight.table, half.table)
    assert second.updates == 6


def test_staleness_and_entropy_are_reported() -> None:
    model = Bigram()
    with torch.no_grad():
        model.table.zero_()
    learner = Learner(model, OptimizerConfig())
    metrics = learner.step(learner.recompute_old(rows_of([(2, 1.0), (3, -1.0)])), Objective(), version=3).metrics
    assert (metrics["staleness_mean"], metrics["staleness_max"]) == (3.0, 3.0)
    assert metrics["entropy"] == pytest.approx(float(torch.log(torch.tensor(7.0))))
    assert metrics["tokens"] == 2
