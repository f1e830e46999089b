"""OREO's residuals by their definition, at the optimum of a known process, and as a gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Episode
from turnwise.errors import UsageError
from turnwise.tasks.rng import Rng
from turnwise.trainers.algorithms.oreo import OREO
from turnwise.trainers.algorithms.ppo import PPO
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.soft_bellman import OBJECTIVE

from ..fakes import Bigram, episode, turn
from .chain import GAMMA, GOAL, LEFT, RIGHT, moved, walks
from .test_ppo import Told, batch_of, number, share, talks

BETA = 0.7


def oreo(**settings: Any) -> OREO:
    return OREO.model_validate({"beta": BETA} | settings)


def scored(batch: Batch, logp: Sequence[float], ref: Sequence[float]) -> Batch:
    """The batch with these log-probabilities of sampled tokens, in order."""
    columns = []
    for given_ in (logp, ref):
        column_T = torch.zeros(len(batch.rows))
        column_T[batch.rows.mask] = torch.tensor(list(given_))
        columns.append(column_T)
    return batch.with_rows(batch.rows.with_logp_old(columns[0]).with_logp_ref(columns[1]))


def many(data: st.DataObject, batch: Batch) -> list[float]:
    return data.draw(st.lists(number, min_size=batch.rows.tokens, max_size=batch.rows.tokens))


@given(talks(), st.data())
def test_the_advantage_is_the_papers_residual_with_its_sign_turned(
    episodes: list[Episode], data: st.DataObject
) -> None:
    """``V(s_t) − R_t + β Σ_{i≥t} log π/π_ref``, with V of the state after a limit in R."""
    batch = batch_of(*episodes)
    values, logp, ref = (many(data, batch) for _ in range(3))
    credit = oreo().credit(scored(batch, logp, ref), Told(values, final=3.0))
    wanted, place = [], 0
    for each in batch.episodes:
        sizes = [len(turn.action_ids) for turn in each.turns]
        for u, size in enumerate(sizes):
            for i in range(size):
                here = place + sum(sizes[:u]) + i
                later = range(here, place + sum(sizes))
                paid = sum(turn.reward for turn in each.turns[u:]) + 3.0 * (each.outcome == "truncated")
                wanted.append(values[here] - paid + BETA * sum(logp[t] - ref[t] for t in later))
        place += sum(sizes)
    mask = batch.rows.mask
    assert credit.rows.advantage[mask].tolist() == pytest.approx([-x for x in wanted], abs=1e-3)
    assert credit.target_T is not None
    targets = [value - x for value, x in zip(values, wanted, strict=True)]
    assert credit.target_T[mask].tolist() == pytest.approx(targets, abs=1e-3)
    assert not credit.rows.advantage[~mask].any()


@given(talks(), st.data(), share, share, st.sampled_from(("turn", "token")))
def test_a_policy_at_its_reference_has_the_advantages_of_gae(
    episodes: list[Episode], data: st.DataObject, gamma: float, lam: float, level: str
) -> None:
    batch = batch_of(*episodes)
    values, logp = many(data, batch), many(data, batch)
    shared: dict[str, Any] = {"gamma": gamma, "lam": lam, "level": level}
    one = oreo(**shared).credit(scored(batch, logp, logp), Told(values, 2.0))
    other = PPO.model_validate({"whiten": False} | shared).credit(batch, Told(values, 2.0))
    assert torch.allclose(one.rows.advantage, other.rows.advantage)


def soft_optimum() -> list[float]:
    """V(s) = β log ½ Σ_a exp(Q(s, a)/β) of the chain, with a uniform reference over two actions."""
    value = [0.0] * (GOAL + 1)
    for _ in range(600):
        for state in range(GOAL):
            q = [q_of(value, state, action) for action in (LEFT, RIGHT)]
            value[state] = BETA * math.log(sum(math.exp(x / BETA) for x in q) / 2)
    return value


def q_of(value: Sequence[float], state: int, action: int) -> float:
    after = moved(state, action)
    return (0.0 if after == GOAL else -1.0) + GAMMA * value[after]


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("level", ["turn", "token"])
def test_the_soft_optimum_has_no_residual_whoever_played(lam: float, level: str) -> None:
    """The random walks know nothing of the optimum, and there is no importance weight."""
    value = soft_optimum()
    batch = batch_of(*walks(12))
    states = [turn.prompt_ids[0] for each in batch.episodes for turn in each.turns]
    actions = [turn.action_ids[0] for each in batch.episodes for turn in each.turns]
    ref = [math.log(0.5)] * len(states)
    best = [ref[0] + (q_of(value, s, a) - value[s]) / BETA for s, a in zip(states, actions, strict=True)]
    critic = Told([value[s] for s in states])
    algorithm = oreo(gamma=GAMMA, lam=lam, level=level)
    assert algorithm.credit(scored(batch, best, ref), critic).rows.advantage.abs().max() < 1e-4
    assert algorithm.credit(scored(batch, ref, ref), critic).rows.advantage.abs().max() > 0.1, "the walk is not it"


def test_the_kernels_gradient_is_that_of_the_squared_residual() -> None:
    rng = Rng("oreo", 1)
    said = [turn((1, 2), [rng.randrange(7) for _ in range(3)], rng.random()) for _ in range(2)]
    batch = batch_of(episode(said), episode(said[1:], name="f"))
    model, reference = Bigram(), Bigram(seed=1)
    learner = Learner(model, OptimizerConfig(max_grad_norm=1e9))
    rows = learner.recompute_old(batch.rows).with_logp_ref(Learner(reference, OptimizerConfig()).logprobs(batch.rows))
    values = [rng.random() for _ in range(rows.tokens)]
    credit = oreo(lam=1.0).credit(batch.with_rows(rows), Told(values))
    weighted = credit.rows.with_weight(credit.rows.mask.float())
    logp_N = score(model, weighted).logp[rows.mask]
    ratio_N = logp_N - rows.logp_ref[rows.mask]
    loss, place = torch.zeros(()), 0
    for each in batch.episodes:
        size = sum(len(t.action_ids) for t in each.turns)
        ends = [sum(len(t.action_ids) for t in each.turns[: u + 1]) for u in range(len(each.turns))]
        for i in range(size):
            here, paid = place + i, sum(t.reward for t, end in zip(each.turns, ends, strict=True) if end > i)
            later = ratio_N[here + 1 : place + size].detach().sum()
            loss = loss + (values[here] - paid + BETA * ratio_N[here] + BETA * later).square()
        place += size
    (wanted,) = torch.autograd.grad(loss, [model.table])
    seen: list[torch.Tensor] = []
    model.table.register_hook(lambda gradient: seen.append(gradient.clone()))  # type: ignore[no-untyped-call]
    learner.step(weighted, OBJECTIVE)
    assert torch.allclose(wanted, 2 * BETA * sum(seen, torch.zeros_like(wanted)), atol=1e-4), (
        "so the loss kernel serves, but for the factor 2β"
    )


def test_it_needs_a_critic() -> None:
    with pytest.raises(UsageError, match="pass values"):
        oreo().credit(batch_of(episode([turn((1,), (2,))])), None)
