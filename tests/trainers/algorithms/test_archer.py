from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from turnwise.errors import UsageError
from turnwise.trainers.algorithms import archer
from turnwise.trainers.algorithms.archer import ArcherRule, awr_weight, expectile_loss, token_credit
from turnwise.trainers.critics.critic_rule import Known
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.learning.utterances import Utterance, pack_utterances

from ..critics.turns import step

NUMBER = st.floats(-20, 20)


def known(
    reward: float,
    done: bool,
    next_v: list[float],
    fresh: list[float],
    taken: list[float],
    returned: float = 0.0,
    span: int = 1,
) -> Known:
    def column(values: list[float]) -> Tensor:
        return torch.tensor(values)[:, None]

    one = (torch.tensor([reward]), torch.tensor([done]), torch.tensor([float(span)]), torch.tensor([returned]))
    return Known(*one, column(next_v), column(taken), column(fresh))


def targets(rule: ArcherRule, seen: Known) -> tuple[list[float], list[float]]:
    """Find the minimum of each head's loss by Newton's step: squared errors are parabolas."""
    q, v = torch.zeros(2, 1, requires_grad=True), torch.zeros(2, 1, requires_grad=True)
    q_loss, v_loss = rule.losses(q, v, seen)
    slope_q, slope_v = torch.autograd.grad(q_loss.sum() + v_loss.sum(), [q, v])
    return (-slope_q[:, 0] / 2).tolist(), (-slope_v[:, 0] / 2).tolist()


@given(NUMBER, st.booleans(), NUMBER, NUMBER, NUMBER, NUMBER, st.floats(0, 1))
def test_td_every_head_learns_from_its_own_slow_copy(
    r: float, done: bool, v1: float, v2: float, q1: float, q2: float, gamma: float
) -> None:
    seen = known(r, done, [v1, v2], [q1, q2], [99.0, 99.0])
    q, v = targets(ArcherRule("td", gamma), seen)
    follows = 0.0 if done else gamma
    assert q == pytest.approx([r + follows * v1, r + follows * v2], abs=1e-4), "Q_i ← r + γ(1−d)·V̄_i(s′)"
    assert v == pytest.approx([q1, q2], abs=1e-4), "V_i ← Q̄_i(s, ã)"
    q, v = targets(ArcherRule("td", gamma, min_target=True), seen)
    assert q == pytest.approx([r + follows * min(v1, v2)] * 2, abs=1e-4)
    assert v == pytest.approx([min(q1, q2)] * 2, abs=1e-4)


def test_turns_without_tokens_are_discounted_too() -> None:
    q, _ = targets(ArcherRule("td", 0.5), known(1.0, False, [8.0, 16.0], [0.0, 0.0], [0.0, 0.0], span=3))
    assert q == pytest.approx([1 + 8 / 8, 1 + 16 / 8]), "r + γ³ · V̄(s′)"


def test_targets_look_ahead_along_the_episodes_of_a_batch() -> None:
    """Two turns of an episode, then one of another: r + γ((1−λ)V̄(s′) + λ(r′ + γV̄(s″))), and nothing across episodes."""
    turns = [step((1,), (2,), 1.0, (3,)), step((3,), (2,), 4.0, (5,), turn=1), step((3,), (2,), 7.0, (5,), name="f")]
    none = torch.zeros(2, 3)
    rewards, spans = torch.tensor([1.0, 4.0, 7.0]), torch.ones(3)
    values = torch.tensor([[10.0, 20.0, 30.0], [30.0, 10.0, 20.0]])
    seen = Known(rewards, torch.zeros(3, dtype=torch.bool), spans, torch.zeros(3), values, none, none)

    def q(rule: ArcherRule) -> list[list[float]]:
        found: list[list[float]] = rule.targets(rule.ahead(turns, seen))[0].tolist()
        return found

    assert q(ArcherRule("td", 0.5)) == [[6, 14, 22], [16, 9, 17]]
    assert q(ArcherRule("td", 0.5, lam=1.0)) == [[1 + 0.5 * 14, 14, 22], [1 + 0.5 * 9, 9, 17]]
    assert q(ArcherRule("td", 0.5, lam=0.5)) == [[1 + 0.5 * 12, 14, 22], [1 + 0.5 * 19.5, 9, 17]]
    assert q(ArcherRule("td", 0.5, steps=2)) == q(ArcherRule("td", 0.5, lam=1.0)), "two turns are all there are"
    assert q(ArcherRule("td", 0.5, min_target=True, steps=2)) == [[1 + 0.5 * 9, 9, 17]] * 2, "the smaller V, further on"
    assert not ArcherRule("mc", lam=0.5).looks_ahead


def test_iql_has_no_targets_for_v() -> None:
    with pytest.raises(UsageError, match="has no targets for it"):
        ArcherRule("iql").targets(known(0, False, [0, 0], [0, 0], [0, 0]))


@given(NUMBER, NUMBER)
def test_mc_learns_the_return_whatever_the_slow_copy_says(r: float, returned: float) -> None:
    q, v = targets(ArcherRule("mc"), known(r, False, [50.0, -50.0], [9.0, 9.0], [9.0, 9.0], returned))
    assert q == pytest.approx([returned] * 2, abs=1e-4)
    assert v == pytest.approx([returned] * 2, abs=1e-4)


@given(NUMBER, st.booleans(), NUMBER, NUMBER, NUMBER, NUMBER)
def test_iql_at_one_half_is_the_mean_of_what_was_done(
    r: float, done: bool, v1: float, v2: float, q1: float, q2: float
) -> None:
    seen = known(r, done, [v1, v2], [99.0, 99.0], [q1, q2])
    q, v = targets(ArcherRule("iql", 0.9, expectile=0.5), seen)
    follows = 0.0 if done else 0.9
    assert q == pytest.approx([r + follows * v1, r + follows * v2], abs=1e-4)
    assert v == pytest.approx([min(q1, q2) / 2] * 2, abs=1e-4), "half of a squared error, towards the smaller Q̄"


@pytest.mark.slow
@pytest.mark.parametrize("expectile", [0.1, 0.5, 0.8, 0.99])
def test_the_minimum_of_the_expectile_loss_is_the_expectile(expectile: float) -> None:
    data = torch.tensor([-3.0, 0.0, 1.0, 5.0])
    value = torch.zeros((), requires_grad=True)
    for _ in range(2000):
        (slope,) = torch.autograd.grad(expectile_loss(data - value, expectile).mean(), value)
        value = (value - 0.2 * slope).detach().requires_grad_()
    above = float((data - value).clamp_min(0).sum().detach())
    below = float((value - data).clamp_min(0).sum().detach())
    assert expectile * above == pytest.approx((1 - expectile) * below, rel=1e-3), "the definition of an expectile"


def test_td_without_fresh_utterances_is_an_error() -> None:
    seen = known(0.0, False, [0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    without = replace(seen, fresh_q_2B=None)
    assert ArcherRule("td").needs_fresh
    assert not ArcherRule("iql").needs_fresh
    with pytest.raises(UsageError, match="none were sampled"):
        ArcherRule("td").losses(torch.zeros(2, 1), torch.zeros(2, 1), without)


@given(NUMBER, st.floats(0.05, 10), st.floats(1, 100))
def test_awr_weighs_by_the_exponential_up_to_a_cap(advantage: float, beta: float, cap: float) -> None:
    (weight,) = awr_weight(torch.tensor([advantage], dtype=torch.float64), beta=beta, cap=cap).tolist()
    assert weight == pytest.approx(min(math.exp(min(advantage / beta, 300)), cap), rel=1e-5)


class Steps:
    """A critic of prefixes that values the n-th token of the pack at n."""

    def values(self, rows: Rows) -> Tensor:
        return torch.where(rows.mask, torch.arange(len(rows)).float(), 0.0)


def test_every_token_is_paid_its_utterances_advantage_less_the_baseline() -> None:
    rows = pack_utterances([Utterance((1, 2), (3, 4), (-1.0, -1.0)), Utterance((5,), (6,), (-1.0,))])
    paid = token_credit(rows, torch.tensor([2.0, -3.0]))
    assert paid.advantage.tolist() == [0, 0, 2, 2, 0, -3], "trap 6: the last token, the stop, is paid like the others"
    less = token_credit(rows, torch.tensor([2.0, -3.0]), Steps())  # type: ignore[arg-type]
    assert less.advantage.tolist() == [0, 0, 2 - 2, 2 - 3, 0, -3 - 5]


def test_what_is_said_in_one_state_is_compared_among_itself() -> None:
    advantage_B = torch.tensor([1.0, 3.0, 8.0, 5.0, -2.0])
    states = [(1,), (1,), (2,), (1,), (3,)]
    expected = [1 - (3 + 5) / 2, 3 - (1 + 5) / 2, 8.0, 5 - (1 + 3) / 2, -2.0]
    torch.testing.assert_close(archer.centered(advantage_B, states, "state"), torch.tensor(expected))
    torch.testing.assert_close(archer.centered(advantage_B, states, "batch"), advantage_B - 3.0)
    assert archer.centered(advantage_B, states, "none") is advantage_B
    shifted = archer.centered(advantage_B + torch.tensor([9.0, 9.0, 0.0, 9.0, 0.0]), states, "state")
    torch.testing.assert_close(shifted, torch.tensor(expected), msg="an error of V in a state changes nothing there")
