"""Traps of docs/traps.md that concern rows, masks, the loss kernel and the learner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from turnwise import Episode
from turnwise.rollouts.rows import merge
from turnwise.trainers.learning.advantages import leave_one_out
from turnwise.trainers.learning.groups import grouped, members
from turnwise.trainers.learning.kl import Estimator, kl_estimate
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.loss import Level, policy_loss
from turnwise.trainers.learning.normalizers import Normalizer, normalizer
from turnwise.trainers.learning.objective import Objective
from turnwise.trainers.learning.rows import Rows, pack
from turnwise.trainers.loop import LoopConfig, iterate

from .fakes import Bigram, Said, comparing, conversation, episode, turn

VOCABULARY = 7
tokens = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=3).map(tuple)
says = st.builds(Said, context=tokens, action=tokens, reward=st.floats(-2, 2, width=16), rewrites=st.booleans())
groups_of_two = st.lists(st.lists(says, min_size=1, max_size=3), min_size=2, max_size=6).map(
    lambda talks: [conversation(t, group=f"g{i // 2}", name=f"e{i}") for i, t in enumerate(talks)]
)


def qwen(seed: int = 0) -> Any:
    """A transformer of a few thousand weights."""
    torch.manual_seed(seed)
    shape = Qwen3Config(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.3,
    )
    return Qwen3ForCausalLM(shape).train(False)


def gradient(model: torch.nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() if p.grad is not None else torch.zeros(p.numel()) for p in model.parameters()])


def loss_and_gradient(
    model: Any, rows: Rows, budget: int, *, level: Level = "token", whole: str = "episode"
) -> tuple[float, Tensor]:
    model.zero_grad()
    total = 0.0
    for part in rows.microbatches(budget, whole=whole):  # type: ignore[arg-type]
        index = {"token": None, "turn": part.turn, "trajectory": part.episode}[level]
        logp = score(model, part).logp
        loss, _ = policy_loss(
            logp, part.logp_old, part.logp_behave, part.advantage, part.weight, part.mask, index, level=level
        )
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    return total, gradient(model)


def credited(episodes: list[Episode], mode: Normalizer = "traj_mean") -> Rows:
    rows = pack(episodes).with_advantage(leave_one_out(*comparing(grouped(episodes))))
    return rows.with_weight(normalizer(rows, mode, denominator=4.0))


def test_trap_02_a_template_that_rewrites_history_forks_the_row() -> None:
    """Trap 2: a template drops earlier reasoning (token 9). The next prompt does not extend the row, so one begins."""
    first, second = turn((1,), (9, 2), logp=-0.5), turn((1, 2, 3), (4,), logp=-0.7)
    kept, fresh = merge(episode([first, second]))
    assert (kept.ids, fresh.ids) == ((1, 9, 2), (1, 2, 3, 4))
    assert fresh.mask == (False, False, False, True), "what was said before is context now, not trained again"
    assert sum(kept.mask) + sum(fresh.mask) == 3, "trained tokens are the sampled ones, each once"


def test_trap_04_each_sampled_token_is_scored_by_the_position_before_it() -> None:
    """Trap 4: logits in which the token t has log-probability known by hand; off by one would read another row."""
    model = Bigram(VOCABULARY)
    rows = pack([conversation([Said((1, 2), (3, 5)), Said((4,), (6,))]), conversation([Said((0,), (1,))])])
    table = model.table.log_softmax(-1)
    wanted = [table[2, 3], table[3, 5], table[4, 6], table[0, 1]]
    scores = score(model, rows)
    assert scores.logp[rows.mask].tolist() == pytest.approx([float(value.detach()) for value in wanted])
    assert not scores.logp[~rows.mask].any()


def test_trap_04_the_target_at_a_masked_position_does_not_matter() -> None:
    """Trap 4: change what a masked position is *scored on* (not what is read there): loss and gradient stay."""
    rows = credited([conversation([Said((1, 2), (3,), 1.0)], name="a"), conversation([Said((1, 2), (4,))], name="b")])
    results = []
    for junk in (0.0, -1e9, float("nan"), float("inf")):
        logp = torch.where(rows.mask, torch.full((len(rows),), -0.5), junk).requires_grad_()
        loss, _ = policy_loss(logp, rows.logp_old, rows.logp_behave, rows.advantage, rows.weight, rows.mask)
        loss.backward()  # type: ignore[no-untyped-call]
        results.append((float(loss.detach()), logp.grad))
    for loss_, grad in results[1:]:
        assert loss_ == results[0][0]
        assert grad is not None
        assert torch.equal(grad, results[0][1])  # type: ignore[arg-type]


def test_trap_05_tokens_of_the_environment_get_exactly_no_gradient() -> None:
    """Trap 5: the gradient with respect to the logits is exactly 0 wherever the next token was not sampled."""
    rows = credited([conversation([Said((1, 2), (3,), 1.0), Said((4, 5), (6,))]), conversation([Said((1,), (3,))])])
    captured: list[Tensor] = []

    class Spying(Bigram):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
            output = super().forward(input_ids, attention_mask)
            output.logits.retain_grad()
            captured.append(output.logits)
            return output

    rows = rows.with_logp_old(score(Bigram(VOCABULARY), rows).logp.detach())
    loss_and_gradient(Spying(VOCABULARY), rows, 10**6)
    grad = captured[0].grad
    assert grad is not None
    trained = torch.zeros(grad.shape[:2], dtype=torch.bool).flatten()
    trained[rows.padded().flat_T[rows.mask] - 1] = True
    touched = grad.flatten(0, 1).abs().sum(-1)
    assert (touched[trained] > 0).all()
    assert (touched[~trained] == 0).all(), "context, last tokens and padding: exactly 0"


@pytest.mark.parametrize("level", ["token", "turn", "trajectory"])
@settings(max_examples=15, deadline=None)
@given(episodes=groups_of_two, budget=st.integers(1, 60), mode=st.sampled_from(["traj_mean", "token_mean", "const"]))
def test_trap_08_loss_and_gradient_do_not_depend_on_the_microbatches(
    level: Level, episodes: list[Episode], budget: int, mode: Normalizer
) -> None:
    """Trap 8: a mean per micro-batch would weigh tokens by their company. Any split, packing or padding is equal."""
    model, rows = Bigram(VOCABULARY), credited(episodes, mode)
    rows = rows.with_logp_old(score(Bigram(VOCABULARY, seed=1), rows).logp.detach())
    loss, grad = loss_and_gradient(model, rows, 10**6, level=level)
    other_loss, other_grad = loss_and_gradient(model, rows, budget, level=level)
    assert other_loss == pytest.approx(loss, rel=1e-4, abs=1e-5)
    assert torch.allclose(other_grad, grad, rtol=1e-4, atol=1e-5 * float(grad.abs().max() + 1))


def test_trap_08_the_sum_over_processes_is_the_batch() -> None:
    """Trap 8: two data-parallel ranks that each sum their share, added up, are one process."""
    model = qwen()
    talks = [conversation([Said((1, 2), (3,) * n, float(n))], group="g", name=str(n)) for n in (1, 2, 5)]
    rows = credited(talks)
    _, whole = loss_and_gradient(model, rows, 10**6)
    ranks = [loss_and_gradient(model, rows.select(share), 10**6)[1] for share in ([0, 2], [1])]
    assert torch.allclose(torch.stack(ranks).sum(0), whole, atol=1e-6)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_trap_11_kl_estimators_as_losses_have_these_gradients(kind: Estimator) -> None:
    """Trap 11: exact expectations over a 5-way softmax: E∇k1 = 0, E∇k2 = ∇KL(π‖ref), E∇k3 = ∇KL(ref‖π)."""
    g = torch.Generator().manual_seed(0)
    theta = torch.randn(5, generator=g, dtype=torch.float64, requires_grad=True)
    ref = torch.randn(5, generator=g, dtype=torch.float64).log_softmax(-1)

    def grad_of(make: Any) -> Tensor:
        (found,) = torch.autograd.grad(make(theta.log_softmax(-1)), theta)
        return found

    expected = grad_of(lambda logp: (logp.detach().exp() * kl_estimate(logp, ref, kind)).sum())
    forward = grad_of(lambda logp: (logp.exp() * (logp - ref)).sum())
    reverse = grad_of(lambda logp: (ref.exp() * (ref - logp)).sum())
    wanted = {"k1": torch.zeros(5, dtype=torch.float64), "k2": forward, "k3": reverse}[kind]
    assert torch.allclose(expected, wanted, atol=1e-12)
    assert not torch.allclose(forward, reverse, atol=1e-3), "the two divergences do differ here"


def test_trap_11_as_values_k1_and_k3_are_unbiased() -> None:
    logp = torch.tensor([0.5, 0.3, 0.2]).log()
    ref = torch.tensor([0.1, 0.3, 0.6]).log()
    exact = float((logp.exp() * (logp - ref)).sum())
    for kind in ("k1", "k3"):
        assert float((logp.exp() * kl_estimate(logp, ref, kind)).sum()) == pytest.approx(exact)
    assert (kl_estimate(logp, ref, "k3") >= 0).all()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_trap_15_at_learning_rate_zero_every_ratio_is_one(temperature: float) -> None:
    """Trap 15: the learner's old log-probabilities are its own; perturb the weights and the ratios leave 1."""
    model = qwen()
    learner = Learner(model, OptimizerConfig(lr=1e-30, microbatch_tokens=12), temperature=temperature)
    talks = [conversation([Said((1, 2), (3, 4), float(n)), Said((5,), (6,))], name=str(n)) for n in range(3)]
    rows = learner.recompute_old(credited(talks))
    assert learner.step(rows, Objective()).metrics["ratio_p99"] == pytest.approx(1.0, abs=1e-5)
    assert learner.step(rows, Objective()).metrics["kl_k3"] == pytest.approx(0.0, abs=1e-9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    moved = learner.step(rows, Objective()).metrics
    assert abs(moved["ratio_p99"] - 1) > 0.01
    assert moved["kl_k3"] > 1e-4


def test_trap_15_dropout_does_not_move_the_policy_from_itself() -> None:
    """Traps 15 and 23: a model with dropout is scored in evaluation mode, also for the gradient."""

    class Dropping(Bigram):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
            output = super().forward(input_ids, attention_mask)
            output.logits = torch.nn.functional.dropout(output.logits, 0.5, self.training)
            return output

    model = Dropping(VOCABULARY).train()
    learner = Learner(model, OptimizerConfig(lr=1e-30))
    rows = learner.recompute_old(credited([conversation([Said((1,), (2,), float(n))], name=str(n)) for n in range(2)]))
    assert torch.equal(learner.logprobs(rows), learner.logprobs(rows)), "two forward passes are bit-equal"
    assert learner.step(rows, Objective()).metrics["ratio_p99"] == 1.0


def test_trap_21_dropping_episodes_does_not_rescale_the_others() -> None:
    """Trap 21: the denominator is that of the batch before the filter: the rest pull exactly as hard as before."""
    talks = [conversation([Said((1,), (2,) * n, float(n % 2))], group=f"g{n // 2}", name=str(n)) for n in range(1, 7)]
    rows = credited(talks)
    kept = [0, 3]
    weights = {e: rows.weight[(rows.episode == e) & rows.mask] for e in kept}
    part = rows.select(kept)
    for e in kept:
        assert torch.equal(part.weight[(part.episode == e) & part.mask], weights[e])
    silenced = rows.with_advantage(torch.where(torch.isin(torch.arange(6), torch.tensor(kept)), 1.0, 0.0))
    _, all_rows = loss_and_gradient(Bigram(VOCABULARY), silenced, 10**6)
    _, only = loss_and_gradient(Bigram(VOCABULARY), silenced.select(kept), 10**6)
    assert torch.allclose(all_rows, only, atol=1e-7)


@pytest.mark.parametrize("mode", ["traj_mean", "traj_sum", "turn_mean", "token_mean", "group_mean"])
def test_trap_21_what_teaches_nothing_is_in_the_denominator(mode: Normalizer) -> None:
    """Trap 21: how many advantages are 0, and would be filtered out, does not change what the others weigh."""
    talks = [conversation([Said((1,), (2,) * n, float(n % 2))], group=f"g{n // 2}", name=str(n)) for n in range(1, 7)]
    rows = pack(talks)
    wanted = normalizer(rows, mode)
    for silent in ([], [0, 3], list(range(6))):
        advantage = torch.where(torch.isin(torch.arange(6), torch.tensor(silent)), 0.0, 1.0)
        assert torch.equal(normalizer(rows.with_advantage(advantage), mode), wanted)


def test_trap_22_a_batch_without_signal_moves_nothing_and_is_counted() -> None:
    """Trap 22: equal returns, or nothing sampled: finite loss, no gradient, no step, not even of Adam's momentum."""
    model = Bigram(VOCABULARY)
    learner = Learner(model, OptimizerConfig(lr=0.1))
    signal = credited([conversation([Said((1,), (2 + n,), float(n))], name=str(n)) for n in range(2)])
    assert learner.step(learner.recompute_old(signal), Objective()).stepped
    before = model.table.detach().clone()
    equal = credited([conversation([Said((1,), (2,), 1.0)], name=str(n)) for n in range(3)])
    masked = replace(signal, mask=torch.zeros_like(signal.mask), advantage=signal.advantage * 0)
    for rows in (equal, masked, signal.select([])):
        update = learner.step(rows, Objective())
        assert not update.stepped
        assert update.metrics["loss"] == 0.0
    assert torch.equal(model.table, before), "momentum of the step before must not move the weights"
    assert (learner.updates, learner.skipped) == (1, 3)


def test_trap_22_a_batch_of_clipped_tokens_moves_nothing_and_is_counted() -> None:
    """Trap 22: there is an advantage, and every token that has it is beyond its bound: a gradient of exactly 0."""
    model = Bigram(VOCABULARY)
    learner = Learner(model, OptimizerConfig(lr=0.1))
    signal = credited([conversation([Said((1,), (2 + n,), float(n))], name=str(n)) for n in range(2)])
    assert learner.step(learner.recompute_old(signal), Objective()).stepped
    before = model.table.detach().clone()
    now = learner.logprobs(signal)
    update = learner.step(signal.with_logp_old(now - signal.advantage.sign()), Objective())
    assert (update.metrics["clip_high"], update.metrics["clip_low"]) == (0.5, 0.5)
    assert not update.stepped
    assert torch.equal(model.table, before), "momentum of the step before must not move the weights"
    assert (learner.updates, learner.skipped) == (1, 1)


def test_trap_22_the_kernel_itself_is_finite_without_signal() -> None:
    logp = torch.full((3,), float("nan"), requires_grad=True)
    zeros = torch.zeros(3)
    loss, seen = policy_loss(logp, zeros, zeros, zeros, zeros, zeros.bool())
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0.0
    assert logp.grad is not None
    assert not logp.grad.any()
    assert seen.metrics() == {}


def test_trap_27_what_the_environment_said_is_read_when_training() -> None:
    """Trap 27: a loss mask used as attention mask hides observations. Perturb one: later log-probabilities change."""
    model = qwen()
    talks = [conversation([Said((1, 2), (3,)), Said((word, 5), (6, 7))]) for word in (4, 8)]
    one, other = (pack([talk]) for talk in talks)
    before, after = (score(model, rows).logp[rows.mask] for rows in (one, other))
    assert torch.equal(before[:1], after[:1]), "what came before the observation does not change"
    assert (before[1:] != after[1:]).all(), "what came after it does"


def test_trap_27_padding_is_not_read() -> None:
    model = qwen()
    short = conversation([Said((1, 2), (3,))])
    alone, padded = pack([short]), pack([short, conversation([Said((4,) * 20, (5,) * 9)])])
    with torch.no_grad():
        assert score(model, alone).logp[2] == pytest.approx(float(score(model, padded).logp[2]), abs=1e-6)


@pytest.mark.parametrize("rewrites", [False, True])
def test_trap_28_the_trainer_scores_every_turn_as_it_was_sampled(rewrites: bool) -> None:
    """Trap 28: history compressed afterwards. Log-probabilities of the rows equal those of sampling, turn by turn."""
    model = qwen()
    talk = conversation([Said((1, 2), (3, 4)), Said((5, 9), (6,), rewrites=rewrites), Said((7,), (8, 2))])
    with torch.no_grad():
        sampled = []
        for said in talk.turns:
            ids = torch.tensor([[*said.prompt_ids, *said.action_ids]])
            logits = model(input_ids=ids).logits[0, len(said.prompt_ids) - 1 : -1]
            picked = logits.log_softmax(-1).gather(-1, torch.tensor(said.action_ids)[:, None])[:, 0]
            sampled.append(replace(said, logprobs=tuple(picked.tolist())))
    rows = pack([replace(talk, turns=tuple(sampled))])
    assert int(rows.row.max()) == int(rewrites), "a rewritten context is a row of its own"
    assert score(model, rows).logp[rows.mask].tolist() == pytest.approx(rows.logp_behave[rows.mask].tolist(), abs=1e-5)


def test_the_gradient_of_the_kernel_in_closed_form() -> None:
    """On a bigram table, ∂loss/∂θ[s] = −Σ w·A·ρ·(onehot(a) − softmax(θ[s])) over unclipped tokens; no autograd."""
    model, old = Bigram(VOCABULARY), Bigram(VOCABULARY, seed=5)
    with torch.no_grad():
        old.table.copy_(model.table + old.table)
    talks = [
        conversation([Said((1,), (2, 3), 1.0), Said((4,), (5,))], name="a"),
        conversation([Said((1,), (6,), -2.0)], name="b"),
    ]
    rows = credited(talks)
    rows = rows.with_logp_old(score(old, rows).logp.detach())
    _, grad = loss_and_gradient(model, rows, 10**6)
    wanted = torch.zeros(VOCABULARY, VOCABULARY)
    clipped = 0
    for place in rows.mask.nonzero()[:, 0].tolist():
        state, action = int(rows.ids[place - 1]), int(rows.ids[place])
        pi = model.table.detach()[state].softmax(-1)
        ratio = float(pi[action] / old.table.detach()[state].softmax(-1)[action])
        a = float(rows.advantage[place])
        if (a > 0 and ratio > 1.2) or (a < 0 and ratio < 0.8):
            clipped += 1
            continue
        onehot = torch.eye(VOCABULARY)[action]
        wanted[state] -= float(rows.weight[place]) * a * ratio * (onehot - pi)
    assert 0 < clipped < rows.tokens, "both branches are exercised"
    assert torch.allclose(grad.view(VOCABULARY, VOCABULARY), wanted, atol=1e-6)


def test_loop_with_one_epoch_and_one_minibatch_is_rloo() -> None:
    """LOOP at trajectory level, on policy, is RLOO: ∇ = (1/N) Σ_i A_i ∇ log π(trajectory_i) (arXiv 2502.01600)."""
    talks = [
        conversation([Said((1,), (2,) * (n + 1), float(n)), Said((3,), (4,))], group=f"g{n // 3}", name=str(n))
        for n in range(6)
    ]
    groups = grouped(talks)
    reference = Bigram(VOCABULARY)
    rows = pack(members(groups))
    logp = score(reference, rows).logp
    trajectory = torch.zeros(6).index_add(0, rows.episode, logp)
    (-(leave_one_out(*comparing(groups)) * trajectory).sum() / 6).backward()  # type: ignore[no-untyped-call]
    model = Bigram(VOCABULARY)
    learner = Learner(model, OptimizerConfig(lr=0.1, max_grad_norm=1e9))
    config = LoopConfig(
        env="none", model="none", ratio_level="trajectory", epochs=1, minibatch=6, min_advantage=0.0, max_kl=None
    )
    seen: list[Tensor] = []
    model.table.register_hook(lambda grad: seen.append(grad.clone()))  # type: ignore[no-untyped-call]
    iterate(config, learner, groups, version=0)
    assert torch.allclose(seen[-1].flatten(), gradient(reference), atol=1e-6)


def test_the_token_level_on_policy_is_rloo_divided_by_length() -> None:
    """On policy every level has ratio 1: at token level a trajectory's score function is averaged over its tokens."""
    talks = [conversation([Said((1,), (2,) * (n + 1), float(n))], name=str(n)) for n in range(3)]
    model, rows = Bigram(VOCABULARY), credited(talks)
    rows = rows.with_logp_old(score(model, rows).logp.detach())
    _, grad = loss_and_gradient(model, rows, 10**6)
    reference = Bigram(VOCABULARY)
    logp = score(reference, rows).logp
    mean = torch.zeros(3).index_add(0, rows.episode, logp) / torch.tensor([1.0, 2.0, 3.0])
    (-(leave_one_out(*comparing(grouped(talks))) * mean).sum() / 4).backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(grad, gradient(reference), atol=1e-6)
