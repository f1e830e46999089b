"""Implicit step rewards: the credit's formula, the gradient of DPO, and what the rewards are at the optimum."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.tasks.rng import Rng
from turnwise.trainers import on_policy
from turnwise.trainers.algorithms.grpo import GRPO
from turnwise.trainers.algorithms.istar import IStar, step_rewards
from turnwise.trainers.critics.preferences import preference_weights, preferences
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.run.metrics import read_metrics

from ..fakes import Bigram
from ..test_on_policy import running
from ..test_resume import same, state
from .batches import Rewards, batch, mean, spread, tasks
from .chain import GOAL, LEFT, RIGHT, moved, walks
from .test_oreo import many
from .test_ppo import Told, batch_of

BETA = 0.7


def istar(**settings: Any) -> IStar:
    return IStar.model_validate({"beta": BETA, **settings})


@given(tasks, st.data())
def test_credit_is_that_of_the_episode_and_of_the_step(rewards: Rewards, data: st.DataObject) -> None:
    given_ = batch(rewards)
    new_logp = many(data, given_)
    credit = istar(alpha=0.5).credit(given_, Told(new_logp))
    old = given_.rows.logp_old[given_.rows.mask].tolist()
    turns = given_.rows.turn[given_.rows.mask].tolist()
    paid = [0.0] * len(given_.reward_U)
    for turn, new, before in zip(turns, new_logp, old, strict=True):
        paid[turn] += BETA * (new - before)
    wanted = GRPO(std="group").credit(given_, None).rows
    for group in range(len(rewards)):
        mine = [turn for turn in range(len(paid)) if int(given_.group_U[turn]) == group]
        values = [paid[turn] for turn in mine]
        for turn in mine:
            step = (paid[turn] - mean(values)) / (spread(values) + 1e-4)
            here = given_.rows.turn == turn
            found = credit.rows.advantage[here].tolist()
            assert found == pytest.approx([float(wanted.advantage[here][0]) + 0.5 * step] * len(found), abs=1e-2)
    assert credit.target_T is not None
    returns = given_.return_E[given_.rows.episode]
    assert torch.equal(credit.target_T[given_.rows.mask], returns[given_.rows.mask])


def test_without_step_rewards_it_is_grpo_and_without_a_model_an_error() -> None:
    given_ = batch([[[1.0, 0.0], [0.5]]])
    wanted = GRPO(std="group").credit(given_, None).rows.advantage
    assert torch.equal(istar(alpha=0.0).credit(given_, Told([1.0] * given_.rows.tokens)).rows.advantage, wanted)
    with pytest.raises(UsageError, match="pass values"):
        istar().credit(given_, None)


def prepared(model: Bigram) -> tuple[Batch, Rows]:
    """Three attempts at one task and two at another, with two turns each, under a policy that differs from π_φ."""
    rewards: Rewards = [[[0.0, 1.0], [0.5], [0.0, 0.25]], [[1.0], [1.0]]]
    given_ = batch(rewards)
    ids, rng = given_.rows.ids.clone(), Rng("istar", 0)
    ids[given_.rows.mask] = torch.tensor([rng.randrange(7) for _ in range(given_.rows.tokens)])
    columns = given_.rows.columns() | {"ids": ids}
    rows = Learner(Bigram(seed=3), OptimizerConfig()).recompute_old(Rows(**columns))
    return given_.with_rows(rows), rows


def dpo(model: Bigram, given_: Batch) -> torch.Tensor:
    """The loss as it is written: a mean over pairs of one group with different returns."""
    rows = given_.rows
    logp_T = score(model, rows).logp
    ratio = [(logp_T - rows.logp_old)[rows.mask & (rows.episode == e)].sum() for e in range(len(given_.episodes))]
    pairs = [
        (i, j)
        for i in range(len(ratio))
        for j in range(len(ratio))
        if given_.group_E[i] == given_.group_E[j] and given_.return_E[i] > given_.return_E[j]
    ]
    return torch.stack([-torch.nn.functional.logsigmoid(BETA * (ratio[i] - ratio[j])) for i, j in pairs]).mean()


def test_weighted_cloning_has_the_gradient_of_dpo() -> None:
    model = Bigram()
    given_, rows = prepared(model)
    loss = dpo(model, given_)
    (wanted,) = torch.autograd.grad(loss, [model.table])
    target_T = torch.where(rows.mask, given_.return_E[rows.episode], 0.0)
    with torch.no_grad():
        weight_T, metrics = preference_weights(rows, score(model, rows).logp, target_T, BETA)
    assert metrics["preference_pairs"] == 3.0, "the other group's attempts are equal"
    assert metrics["preference_loss"] == pytest.approx(float(loss.detach()), abs=1e-5)
    (found,) = torch.autograd.grad(-(weight_T * score(model, rows).logp).sum(), [model.table])
    assert torch.allclose(found, wanted, atol=1e-6)


def test_it_learns_which_attempt_was_better_and_leaves_the_policy_alone() -> None:
    policy = Learner(Bigram(), OptimizerConfig())
    given_, rows = prepared(Bigram())
    before = policy.model.table.detach().clone()
    model = preferences(policy, lr=0.05, beta=BETA, epochs=40)
    target_T = torch.where(rows.mask, given_.return_E[rows.episode], 0.0)
    first = dpo(model.learner.model, given_)
    metrics = model.fit(rows, target_T)
    assert metrics["preference_accuracy"] == 1.0
    assert dpo(model.learner.model, given_) < first
    assert torch.equal(policy.model.table, before)
    equal = torch.where(rows.mask, 1.0, 0.0)
    kept = model.learner.model.table.detach().clone()
    assert model.fit(rows, equal) == {"preference_pairs": 0.0}
    assert torch.equal(model.learner.model.table, kept), "equal returns teach nothing"
    rounded = torch.where(rows.mask & (rows.episode == 0), torch.tensor(0.6) + torch.tensor(0.3), equal * 0.9)
    assert torch.unique(rounded[rows.mask]).numel() == 2
    assert model.fit(rows, rounded) == {"preference_pairs": 0.0}, "nor do returns that differ by rounding"


def test_at_the_optimum_the_rewards_are_shaped_by_a_potential() -> None:
    """``β log π*/π_old = r + V(s′) − V(s)``: summed over an episode, its return less a constant of the start."""
    value = [0.0] * (GOAL + 1)
    for _ in range(4000):
        for s in range(GOAL):
            q = [(0.0 if moved(s, a) == GOAL else -1.0) + value[moved(s, a)] for a in (LEFT, RIGHT)]
            value[s] = BETA * math.log(sum(math.exp(x / BETA) for x in q) / 2)
    given_ = batch_of(*walks(12))
    states = [turn.prompt_ids[0] for each in given_.episodes for turn in each.turns]
    actions = [turn.action_ids[0] for each in given_.episodes for turn in each.turns]
    after = [moved(s, a) for s, a in zip(states, actions, strict=True)]
    best = [
        math.log(0.5) + ((0.0 if e == GOAL else -1.0) + value[e] - value[s]) / BETA
        for s, e in zip(states, after, strict=True)
    ]
    half_T = torch.where(given_.rows.mask, math.log(0.5), 0.0)
    given_ = given_.with_rows(given_.rows.with_logp_old(half_T))
    logp_T = torch.zeros(len(given_.rows))
    logp_T[given_.rows.mask] = torch.tensor(best)
    paid_U = step_rewards(given_, logp_T, BETA)
    shaped = [r + value[e] - value[s] for r, s, e in zip(given_.reward_U.tolist(), states, after, strict=True)]
    assert paid_U.tolist() == pytest.approx(shaped, abs=1e-4)
    for number, (first, end) in enumerate(pairwise([0, *torch.bincount(given_.episode_U).cumsum(0).tolist()])):
        start = value[states[first]]
        assert float(paid_U[first:end].sum()) == pytest.approx(float(given_.return_E[number]) - start, abs=1e-3)


@pytest.mark.slow
@pytest.mark.shift
def test_a_resumed_run_is_bitwise_the_same(tmp_path: Path, cloned: Path) -> None:
    on_policy.train(running(tmp_path / "straight", cloned / "model", "istar", steps=3))
    on_policy.train(running(tmp_path / "parts", cloned / "model", "istar", steps=2))
    torch.manual_seed(5)
    on_policy.train(running(tmp_path / "parts", cloned / "model", "istar", steps=3, resume=True))
    one, other = state(tmp_path / "straight", "istar"), state(tmp_path / "parts", "istar")
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert any(line.get("preference_pairs", 0) > 0 for line in read_metrics(tmp_path / "straight" / "metrics.jsonl"))
