"""The doubly robust gradient against enumeration: a wrong Q changes its variance, and never its mean."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from turnwise.trainers.algorithms.doubly_robust import (
    DoublyRobustConfig,
    Outcomes,
    combined,
    fitted,
    outcomes,
    with_own_old,
    with_terms,
)
from turnwise.trainers.critics.transitions import Transition
from turnwise.trainers.learning.loss import Level, policy_loss
from turnwise.trainers.learning.normalizers import per_utterance
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.learning.utterances import Utterance

ACTIONS, STATES, GAMMA = 3, 4, 0.9
"""State 0 comes first; after action a, state 1 + a; then the episode ends."""
torch.manual_seed(0)
REWARD = torch.randn(STATES, ACTIONS, dtype=torch.float64)
LOGITS, OLD = torch.randn(2, STATES, ACTIONS, dtype=torch.float64).unbind(0)
OPEN = (0.0, 1e9)
"""Bounds that clip nothing."""


def true_q(logits: Tensor) -> Tensor:
    v = (logits.softmax(-1) * REWARD).sum(-1)
    return torch.stack([REWARD[0] + GAMMA * v[1:], *REWARD[1:]])


WRONG_Q = torch.randn(STATES, ACTIONS, dtype=torch.float64) - 4 * true_q(LOGITS)
WRONG_V = 5 * torch.randn(STATES, dtype=torch.float64)


class Table:
    """A critic with the given tables, the same for both heads."""

    def __init__(self, q: Tensor, v: Tensor) -> None:
        self.table_q, self.table_v = q, v

    def v(self, states: Any) -> Tensor:
        return torch.stack([self.table_v[[state[0] for state in states]]] * 2)

    def advantage(self, states: Any, actions: Any) -> Tensor:
        pairs = list(zip(states, actions, strict=True))
        return torch.stack([self.table_q[s[0], a[0]] - self.table_v[s[0]] for s, a in pairs])


@dataclass
class Sample:
    """A recorded turn with a fresh utterance in its state, and the chance of drawing both."""

    turn: Transition
    fresh: Utterance
    chance: float


def samples(behaviour: Tensor, policy: Tensor, critic: Any, lam: float, control: float) -> tuple[list[Sample], Tensor]:
    """Every recorded turn of one policy with every utterance of the other, and the advantages of both terms."""
    mu, pi, found, rest, fresh_h = behaviour.log_softmax(-1), policy.log_softmax(-1), [], [], []
    for first, second in itertools.product(range(ACTIONS), repeat=2):
        after = 1 + first
        one, other = (float(mu[0, first]),), (float(mu[after, second]),)
        turns = [
            Transition((0,), (first,), one, float(REWARD[0, first]), (after,), False, 0, 0, "e", 0),
            Transition((after,), (second,), other, float(REWARD[after, second]), (), True, 0, 0, "e", 1),
        ]
        seen = outcomes(turns, critic, gamma=GAMMA, lam=lam)
        chance = float((mu[0, first] + mu[1 + first, second]).exp())
        for place, turn in enumerate(turns):
            state = turn.state_ids[0]
            for said in range(ACTIONS):
                fresh = Utterance((state,), (said,), (float(pi[state, said]),))
                found.append(Sample(turn, fresh, chance * float(pi[state, said].exp())))
                rest.append(seen.advantage_N[place] - control * seen.control_N[place])
                fresh_h.append(control * critic.advantage([(state,)], [(said,)])[0])
    return found, torch.stack([torch.stack(rest), torch.stack(fresh_h)])


def gradient(rows: Rows, policy: Tensor) -> Tensor:
    """The ascent direction of the clipped loss, in the table's logits."""
    table = policy.clone().requires_grad_()
    rows = with_own_old(rows, rows.with_logp_old(rows.logp_old, rows.entropy), 0)
    place = rows.mask.nonzero()[:, 0]
    logp_T = torch.zeros(len(rows), dtype=torch.float64)
    logp_T = logp_T.index_put((place,), table.log_softmax(-1)[rows.ids[place - 1], rows.ids[place]])
    loss, _ = policy_loss(
        logp_T, rows.logp_old, rows.logp_behave, rows.advantage, rows.weight, rows.mask, clip=OPEN, kind="ppo"
    )
    (found,) = torch.autograd.grad(-loss, table)
    return found


def expected(behaviour: Tensor, policy: Tensor, critic: Any, *, lam: float = 1.0, control: float = 1.0) -> Tensor:
    every, (rest_S, fresh_S) = samples(behaviour, policy, critic, lam, control)
    rows = combined([each.turn for each in every], [each.fresh for each in every])
    chance_E = torch.tensor([each.chance for each in every] * 2) * len(every)
    rows = rows.with_weight(rows.weight * chance_E[rows.episode])
    return gradient(with_terms(rows, rest_S, fresh_S), policy)


def exact(policy: Tensor) -> Tensor:
    """Σ over turns of the policy gradient theorem, with states visited as the policy does, not discounted."""
    table = policy.clone().requires_grad_()
    pi, q = table.softmax(-1), true_q(policy)
    visits = torch.cat([torch.ones(1, dtype=torch.float64), policy[0].softmax(-1)])
    (found,) = torch.autograd.grad((visits[:, None] * pi * q).sum(), table)
    return found


@pytest.mark.parametrize("control", [0.0, 0.5, 1.0])
def test_whatever_q_and_v_say_the_gradient_is_unbiased(control: float) -> None:
    critic: Any = Table(WRONG_Q, WRONG_V)
    assert expected(LOGITS, LOGITS, critic, control=control) == pytest.approx(exact(LOGITS), abs=1e-5)


def test_recorded_turns_of_an_older_policy_are_weighted_by_their_own_log_probabilities() -> None:
    """In the last turn nothing follows, so there the ratio alone must correct for the old policy."""
    critic: Any = Table(WRONG_Q, WRONG_V)
    visits = OLD[0].softmax(-1)
    table = LOGITS.clone().requires_grad_()
    (last,) = torch.autograd.grad((visits[:, None] * table.softmax(-1)[1:] * REWARD[1:]).sum(), table)
    assert expected(OLD, LOGITS, critic)[1:] == pytest.approx(last[1:], abs=1e-5)


def test_without_the_control_variate_a_wrong_q_alone_points_elsewhere() -> None:
    """ArCHer's own actor follows Q of fresh utterances."""
    table = LOGITS.clone().requires_grad_()
    visits = torch.cat([torch.ones(1, dtype=torch.float64), LOGITS[0].softmax(-1)])
    (misled,) = torch.autograd.grad((visits[:, None] * table.softmax(-1) * WRONG_Q).sum(), table)
    agreement = torch.cosine_similarity(misled.flatten(), exact(LOGITS).flatten(), dim=0)
    assert agreement < 0, "the planted critic leads away"


def test_a_right_q_lowers_the_variance_and_a_wrong_one_raises_it() -> None:
    def variance(critic: Any, control: float) -> float:
        every, (rest_S, fresh_S) = samples(LOGITS, LOGITS, critic, 1.0, control)
        mean, total = torch.zeros_like(LOGITS), 0.0
        for each, rest, fresh in zip(every, rest_S, fresh_S, strict=True):
            one = gradient(with_terms(combined([each.turn], [each.fresh]), rest[None], fresh[None]), LOGITS)
            mean, total = mean + each.chance * one, total + each.chance * float(one.square().sum())
        return total - float(mean.square().sum())

    v = (LOGITS.softmax(-1) * true_q(LOGITS)).sum(-1)
    right: Any = Table(true_q(LOGITS), v)
    wrong: Any = Table(WRONG_Q, v)
    plain = variance(right, 0.0)
    assert variance(right, 1.0) < 1.1 * plain, "one fresh utterance is as noisy as the recorded one"
    assert variance(wrong, 1.0) > 2 * plain


def test_with_lambda_0_the_outcome_is_one_reward_and_the_value_after_it() -> None:
    v = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    critic: Any = Table(WRONG_Q, v)
    turns = [
        Transition((0,), (1,), (-1.0,), 0.5, (2,), False, 0, 0, "e", 0),
        Transition((2,), (0,), (-1.0,), 7.0, (), True, 0, 0, "e", 1),
    ]
    by_lambda = {lam: outcomes(turns, critic, gamma=0.5, lam=lam).advantage_N.tolist() for lam in (0.0, 0.5, 1.0)}
    assert by_lambda[0.0] == pytest.approx([0.5 + 0.5 * 3 - 1, 7 - 3])
    assert by_lambda[1.0] == pytest.approx([0.5 + 0.5 * 7 - 1, 7 - 3])
    assert by_lambda[0.5] == pytest.approx([0.5 + 0.5 * 5 - 1, 7 - 3])


def test_weights_sum_to_one_and_recorded_utterances_keep_their_log_probabilities() -> None:
    turn = Transition((0,), (1, 2), (-1.0, -2.0), 0.5, (2,), False, 0, 3, "e", 0)
    rows = combined([turn], [Utterance((0,), (1,), (-0.3,)), Utterance((0,), (2,), (-0.4,))])
    assert rows.weight.tolist() == [0, 0.5, 0.5, 0, 0.25, 0, 0.25]
    recomputed = rows.with_logp_old(torch.full((7,), -9.0), torch.full((7,), 1.5))
    mixed = with_own_old(rows, recomputed, 1)
    assert mixed.logp_old.tolist() == [0, -1, -2, 0, -9, 0, -9]
    assert mixed.entropy.tolist() == [0, 1.5, 1.5, 0, 1.5, 0, 1.5]
    assert with_terms(rows, torch.tensor([1.0]), torch.tensor([2.0, 3.0])).advantage.tolist() == [0, 2, 2, 0, 4, 0, 6]


def test_the_explained_share_is_that_of_the_control_in_use() -> None:
    advantage_N = torch.tensor([1.0, -1.0])
    turn = Transition((0,), (1,), (-1.0,), 0.5, (2,), False, 0, 3, "e", 0)
    for control, share in {0.0: 0.0, 0.5: 1.0, 1.0: 0.0}.items():
        found = Outcomes((turn, turn), advantage_N, 2 * advantage_N, torch.full((2,), control)).metrics(3)
        assert (found["actor/explained"], found["actor/control"]) == (share, control)


def played(episodes: list[int]) -> list[Transition]:
    return [Transition((0,), (1,), (-1.0,), 0.5, (2,), False, 0, 3, f"e{each}", 0) for each in episodes]


@pytest.mark.parametrize("utterances", [1, 4])
def test_the_fitted_share_leaves_the_least_variance_of_both_terms(utterances: int) -> None:
    """Found by a search over shares on the very turns that it was fitted on: the other half of the episodes."""
    generator = torch.Generator().manual_seed(1)
    h = torch.randn(400, generator=generator) + 3
    a = 0.5 * h + torch.randn(400, generator=generator)
    turns = played([place // 2 for place in range(400)])
    share_N = fitted(turns, a, h, utterances)
    halves = [torch.tensor([place // 2 % 2 == half for place in range(400)]) for half in (0, 1)]
    for one, other in (halves, halves[::-1]):
        (share,) = set(share_N[one].tolist())
        tried = torch.linspace(0, 1, 1001)
        left = [float((a - c * h)[other].var() + c**2 * h[other].var() / utterances) for c in tried]
        assert share == pytest.approx(float(tried[left.index(min(left))]), abs=2e-3)
        assert 0 < share < 0.6


def test_a_q_that_outcomes_contradict_or_that_says_nothing_is_not_used() -> None:
    turns = played([0, 1, 2, 3])
    a = torch.tensor([1.0, 1.0, -1.0, -1.0])
    assert fitted(turns, a, -a, 1).tolist() == [0] * 4
    assert fitted(turns, a, torch.full((4,), 7.0), 1).tolist() == [0] * 4
    assert fitted(turns, torch.full((4,), 0.3), a, 1).tolist() == [0] * 4, "all outcomes are alike"
    assert fitted(turns, 5 * a, a, 1).tolist() == [1] * 4, "and never more than all of it"
    assert fitted(turns, a, torch.full((4,), 0.3) + 1e-8 * a, 1).tolist() == [0] * 4, "nothing but rounding"
    assert fitted(turns[:1], a[:1], a[:1], 1).tolist() == [0], "one episode has no others"


def test_an_episode_has_no_part_in_its_own_share() -> None:
    """Otherwise c would depend on the outcome that it is multiplied with, and the terms with h would not cancel."""
    generator = torch.Generator().manual_seed(2)
    a, h = torch.randn(2, 40, generator=generator)
    turns = played([place // 4 for place in range(40)])
    before = fitted(turns, a, a + h, 2)
    a[:4] += 9 * h[:4]
    after = fitted(turns, a, torch.cat([3 * h[:4], (a + h)[4:]]), 2)
    assert after[:4].tolist() == before[:4].tolist()
    assert after[4:8].tolist() != before[4:8].tolist()


def test_an_offset_of_the_critic_brings_no_variance_where_advantages_are_centered() -> None:
    """Under two shares, an offset of h would move the two halves of the episodes apart."""
    a, h, share_N = (
        torch.tensor([1.0, -1.0, 2.0, -2.0]),
        torch.tensor([0.5, -0.5, 1.0, -1.0]),
        torch.tensor([1, 1, 0, 0]),
    )
    turns = tuple(played([0, 2, 1, 3]))
    for offset in (0.0, 5.0):
        assert Outcomes(turns, a, h + offset, share_N).recorded(centered=True).tolist() == [0.5, -0.5, 2.0, -2.0]
    assert Outcomes(turns, a, h, share_N).recorded(centered=False).tolist() == [0.5, -0.5, 2.0, -2.0]


def test_control_is_a_share_or_fitted() -> None:
    assert DoublyRobustConfig(control="fitted").control == "fitted"
    for wrong in (1.5, -0.1, "fit", True):
        with pytest.raises(ValueError, match=f"must be a number from 0 to 1, or fitted; got {wrong!r}"):
            DoublyRobustConfig.model_validate({"control": wrong})


# -- utterances of several tokens -------------------------------------------------------------------------------------

SHORT_AND_LONG = ((0,), (1, 0), (1, 1))
"""Utterances of one and of two tokens: 0 ends at once, 1 is followed by 0 or 1."""


def token_logprobs(logits: Tensor, said: tuple[int, ...]) -> Tensor:
    """Log-probability of each token: the first row of logits is of the first token, the second of the second."""
    return torch.stack([logits[place].log_softmax(-1)[token] for place, token in enumerate(said)])


def expected_gradient(new: Tensor, old: Tensor, advantage: Tensor, control: Tensor, level: Level) -> Tensor:
    """The actor's expected gradient in one state, by enumeration of the recorded and the fresh utterance."""
    chance = {
        policy: [token_logprobs(logits, a).sum().exp() for a in SHORT_AND_LONG]
        for policy, logits in (("old", old), ("new", new))
    }
    recorded = [
        Transition((9,), a, tuple(token_logprobs(old, a).tolist()), 0.0, (), True, 0.0, 0, f"e{n}", 0)
        for n, a in enumerate(SHORT_AND_LONG)
    ]
    fresh = [Utterance((9,), a, tuple(token_logprobs(new, a).tolist())) for a in SHORT_AND_LONG]
    rows = combined(recorded, fresh)
    if level != "token":
        rows = rows.with_weight(per_utterance(rows))
    often_E = torch.stack([*chance["old"], *chance["new"]]) * len(SHORT_AND_LONG)
    rows = with_terms(rows.with_weight(rows.weight * often_E[rows.episode]), advantage - control, control)
    logits = new.clone().requires_grad_()
    place = rows.mask.nonzero()[:, 0]
    said = torch.cat([token_logprobs(logits, a) for a in SHORT_AND_LONG * 2])
    logp = torch.zeros(len(rows), dtype=torch.float64).index_put((place,), said)
    index = None if level == "token" else rows.turn
    old_T, advantage_T = rows.logp_old.double(), rows.advantage.double()
    loss, _ = policy_loss(logp, old_T, old_T, advantage_T, rows.weight, rows.mask, index, clip=OPEN, level=level)
    (gradient,) = torch.autograd.grad(-loss, logits)
    return gradient


@pytest.mark.parametrize("wrong", [0.0, -1.0, -5.0, 5.0])
def test_with_ratios_of_utterances_q_cancels_for_utterances_of_any_length(wrong: float) -> None:
    """Ratios per token leave a part of Q where the recorded policy is an older one."""
    advantage = torch.tensor([1.0, -0.3, -0.9], dtype=torch.float64)
    new = torch.tensor([[0.3, -0.2], [0.5, -0.5]], dtype=torch.float64)
    old = new + torch.tensor([[0.4, -0.4], [-0.4, 0.4]], dtype=torch.float64)
    logits = new.clone().requires_grad_()
    chances = torch.stack([token_logprobs(logits, a).sum().exp() for a in SHORT_AND_LONG])
    (true,) = torch.autograd.grad((chances * advantage).sum(), logits)
    found = expected_gradient(new, old, advantage, wrong * advantage, "turn")
    assert torch.allclose(found, true, atol=1e-6)
    for level in ("token", "turn"):
        assert torch.allclose(expected_gradient(new, new, advantage, wrong * advantage, level), true, atol=1e-6)
    if wrong:
        apart = (expected_gradient(new, old, advantage, wrong * advantage, "token") - true).norm() / true.norm()
        assert apart > 0.05, "the bias that the module's docstring names"
