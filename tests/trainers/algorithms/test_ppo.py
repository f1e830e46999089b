"""PPO's credit against closed forms, and against sums written as the papers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from turnwise import Episode, Outcome
from turnwise.errors import ContractError, UsageError
from turnwise.trainers.algorithms.ppo import PPO
from turnwise.trainers.learning.advantages import turn_gae, turn_rewards
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.rows import Rows

from ..fakes import Said, conversation, turn

NEXT = (9, 9)
"""The prompt that would follow a cut-off episode."""


class Told:
    """A critic with given values: those of sampled tokens in order of place, and one for every last state."""

    def __init__(self, values: Sequence[float] = (), final: float = 0.0) -> None:
        self.estimates, self.last = values, final
        self.asked: list[tuple[int, ...]] = []

    def values(self, rows: Rows) -> Tensor:
        value_T = torch.zeros(len(rows))
        value_T[rows.mask] = torch.tensor((list(self.estimates) or [0.0] * rows.tokens)[: rows.tokens])
        return value_T

    def final(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        self.asked += prompts
        return torch.full((len(prompts),), self.last)

    def fit(self, rows: Rows, target_T: Tensor) -> Mapping[str, float]:
        raise AssertionError("credit teaches nothing")

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        del state


def ppo(**settings: Any) -> PPO:
    return PPO.model_validate({"whiten": False} | settings)


def batch_of(*episodes: Episode) -> Batch:
    return Batch.of(grouped(episodes))


def talk(lengths: Sequence[int], rewards: Sequence[float], *, cut: bool = False, name: str = "e") -> Episode:
    """Turns of so many sampled tokens, which are paid so; ``cut`` by a limit or ended by the task."""
    outcome = Outcome.TRUNCATED if cut else Outcome.COMPLETED
    said = [Said((1,), tuple(range(2, 2 + n)), r) for n, r in zip(lengths, rewards, strict=True)]
    return replace(conversation(said, name=name, outcome=outcome), final_prompt_ids=NEXT if cut else ())


number = st.floats(-5, 5, width=32)
share = st.sampled_from((0.0, 0.3, 0.9, 1.0))


@st.composite
def talks(draw: st.DrawFn, longest: int = 3) -> list[Episode]:
    made = []
    for index in range(draw(st.integers(1, 3))):
        lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=4))
        rewards = draw(st.lists(number, min_size=len(lengths), max_size=len(lengths)))
        made.append(talk(lengths, rewards, cut=draw(st.booleans()), name=f"e{index}"))
    return made


def by_the_book(
    batch: Batch, estimates: list[float], final: float, gamma: float, lam: float, *, token: bool
) -> list[float]:
    """Eq. 16 of arXiv 1506.02438 as a double sum, ``A_t = Σ_{l≥0} (Π γλ) δ_{t+l}``, one entry per sampled token."""
    advantages: list[float] = []
    for episode in batch.episodes:
        mine = estimates[len(advantages) : len(advantages) + sum(len(t.action_ids) for t in episode.turns)]
        steps: list[tuple[float, float, float, int]] = []  # value, reward, discount, tokens
        place = 0
        for each in episode.turns:
            size = len(each.action_ids)
            if token:
                steps += [(mine[place + i], 0.0, 1.0, 1) for i in range(size - 1)]
                steps.append((mine[place + size - 1], each.reward, gamma, 1))
            else:
                steps.append((mine[place], each.reward, gamma, size))
            place += size
        after = final if episode.outcome is Outcome.TRUNCATED else 0.0
        for start in range(len(steps)):
            total, decay = 0.0, 1.0
            for at in range(start, len(steps)):
                value, reward, discount, _ = steps[at]
                following = steps[at + 1][0] if at + 1 < len(steps) else after
                total += decay * (reward + discount * following - value)
                decay *= discount * lam
            advantages += [total] * steps[start][3]
    return advantages


@given(talks(), st.data(), share, share, st.booleans())
def test_advantages_are_the_papers_double_sum(
    episodes: list[Episode], data: st.DataObject, gamma: float, lam: float, token: bool
) -> None:
    batch = batch_of(*episodes)
    estimates = data.draw(st.lists(number, min_size=batch.rows.tokens, max_size=batch.rows.tokens))
    algorithm = ppo(level="token" if token else "turn", gamma=gamma, lam=lam)
    rows = algorithm.credit(batch, Told(estimates, final=3.0)).rows
    assert rows.advantage[rows.mask].tolist() == pytest.approx(
        by_the_book(batch, estimates, 3.0, gamma, lam, token=token), abs=1e-4
    )
    assert not rows.advantage[~rows.mask].any(), "context has no advantage"


@pytest.mark.slow
@given(talks(longest=1), st.data(), share, share)
def test_where_turns_are_tokens_the_levels_agree(
    episodes: list[Episode], data: st.DataObject, gamma: float, lam: float
) -> None:
    batch = batch_of(*episodes)
    estimates = data.draw(st.lists(number, min_size=batch.rows.tokens, max_size=batch.rows.tokens))
    turnwise, tokenwise = (
        ppo(level=level, gamma=gamma, lam=lam, lam_critic=0.5).credit(batch, Told(estimates, 2.0))
        for level in ("turn", "token")
    )
    assert torch.equal(turnwise.rows.advantage, tokenwise.rows.advantage)
    assert turnwise.target_T is not None
    assert tokenwise.target_T is not None
    assert torch.equal(turnwise.target_T, tokenwise.target_T)


def test_turns_are_credited_by_turn_gae() -> None:
    one, cut = talk((2, 1, 3), (1.0, 0.0, 4.0)), talk((1, 2), (2.0, -1.0), cut=True, name="f")
    estimates = [0.5, 7.0, -1.0, 2.0, 7.0, 7.0, 1.5, -0.5, 7.0]  # the 7s are inside turns and have no effect
    credit = ppo(gamma=0.9, lam=0.8, lam_critic=0.7).credit(batch_of(one, cut), Told(estimates, final=10.0))
    assert credit.target_T is not None
    wanted: list[float] = []
    targets: list[float] = []
    for episode, values, after in ((one, [0.5, -1.0, 2.0], None), (cut, [1.5, -0.5], 10.0)):
        for lam, into, kept in ((0.8, wanted, 0), (0.7, targets, 1)):
            found = turn_gae(turn_rewards(episode), torch.tensor(values), bootstrap=after, gamma=0.9, lam=lam)[kept]
            for each, value in zip(episode.turns, found.tolist(), strict=True):
                into += [value] * len(each.action_ids)
    rows = credit.rows
    assert rows.advantage[rows.mask].tolist() == pytest.approx(wanted)
    assert credit.target_T[rows.mask].tolist() == pytest.approx(targets)


@pytest.mark.parametrize("level", ["turn", "token"])
def test_lambda_one_is_the_return_minus_the_value(level: str) -> None:
    batch = batch_of(talk((2, 1), (1.0, 4.0)))
    credit = ppo(level=level, gamma=0.5, lam=1.0).credit(batch, Told([0.25, 0.75, 2.0]))
    returns = [1 + 0.5 * 4, 1 + 0.5 * 4, 4.0]
    values = [0.25, 0.25 if level == "turn" else 0.75, 2.0]
    advantages = [g - v for g, v in zip(returns, values, strict=True)]
    assert credit.rows.advantage[batch.rows.mask].tolist() == pytest.approx(advantages)
    assert credit.target_T is not None
    assert credit.target_T[batch.rows.mask].tolist() == pytest.approx(returns), "λ of the critic is 1: Monte-Carlo"


@pytest.mark.parametrize("level", ["turn", "token"])
def test_lambda_zero_is_one_step_of_temporal_difference(level: str) -> None:
    batch = batch_of(talk((2, 1), (1.0, 4.0)))
    credit = ppo(level=level, gamma=0.5, lam=0.0, lam_critic=0.0).credit(batch, Told([0.25, 0.75, 2.0]))
    turns, tokens = [1 + 0.5 * 2 - 0.25] * 2, [0.75 - 0.25, 1 + 0.5 * 2 - 0.75]
    wanted = [*(turns if level == "turn" else tokens), 4 - 2.0]
    assert credit.rows.advantage[batch.rows.mask].tolist() == pytest.approx(wanted)
    assert credit.target_T is not None
    first = 1 + 0.5 * 2
    wanted_targets = [first, first, 4.0] if level == "turn" else [0.75, first, 4.0]
    assert credit.target_T[batch.rows.mask].tolist() == pytest.approx(wanted_targets)


@pytest.mark.parametrize("level", ["turn", "token"])
def test_trap_12_what_the_environment_inserts_changes_nothing(level: str) -> None:
    said = [((2, 2), 1.0), ((4,), 2.0), ((6, 6, 6), 4.0)]
    credited = []
    for sizes in ((1, 1, 1), (9, 50, 7)):
        episode = conversation([Said((1,) * size, ids, r) for size, (ids, r) in zip(sizes, said, strict=True)])
        credit = ppo(level=level, gamma=0.9, lam=0.8).credit(batch_of(episode), Told([0.5, 1, 2, 3, 4, 5]))
        credited.append(credit.rows.advantage[credit.rows.mask])
    assert torch.equal(*credited)


@pytest.mark.parametrize("level", ["turn", "token"])
def test_trap_14_only_a_limit_leaves_a_state_with_a_value(level: str) -> None:
    ended, cut = talk((1, 1), (1.0, 1.0), name="ended"), talk((1, 1), (1.0, 1.0), cut=True, name="cut")
    both = replace(cut, turns=(cut.turns[0], replace(cut.turns[1], terminated=True)), episode_id="both")
    critic = Told(final=10.0)
    credit = ppo(level=level, gamma=0.5, lam=1.0).credit(batch_of(ended, cut, both), critic)
    assert credit.rows.advantage[credit.rows.mask].tolist() == [1.5, 1.0, 1.5 + 0.25 * 10, 1 + 0.5 * 10, 1.5, 1.0]
    assert critic.asked == [NEXT], "the task's own end wins over a limit reached in the same turn"


@pytest.mark.parametrize("level", ["turn", "token"])
def test_a_context_that_was_rewritten_changes_no_advantage(level: str) -> None:
    whole = conversation([Said((1,), (2, 3), 1.0), Said((4,), (5,), 2.0), Said((6,), (7,), 3.0)])
    forked = conversation([Said((1,), (2, 3), 1.0), Said((8,), (5,), 2.0, rewrites=True), Said((6,), (7,), 3.0)])
    back = replace(forked, turns=(*forked.turns[:2], turn((1, 2, 3, 6), (7,), 3.0)))  # the first row grows once more
    credited = []
    for episode, estimates in ((whole, [1.0, 2, 3, 4]), (forked, [1.0, 2, 3, 4]), (back, [1.0, 2, 4, 3])):
        rows = ppo(level=level, gamma=0.9, lam=0.8).credit(batch_of(episode), Told(estimates)).rows
        credited.append({int(t): rows.advantage[rows.turn == t].tolist() for t in torch.unique(rows.turn[rows.mask])})
    assert credited[0] == credited[1] == credited[2]


@pytest.mark.parametrize("level", ["turn", "token"])
def test_the_reward_of_a_turn_without_tokens_belongs_to_the_decision_before(level: str) -> None:
    silent = replace(turn((1,), (), 8.0), logprobs=(), versions=())
    one = talk((1, 1), (1.0, 2.0), cut=True)
    first, last = one.turns
    spoken = replace(one, turns=(silent, first, silent, last, silent))
    credit = ppo(level=level, gamma=0.5, lam=0.0).credit(batch_of(spoken), Told([3.0, 4.0], final=16.0))
    assert credit.rows.advantage[credit.rows.mask].tolist() == [1 + 0.5 * 8 + 0.25 * 4 - 3, 2 + 0.5 * 8 + 0.25 * 16 - 4]


def test_dense_rewards_of_the_batch_are_the_ones_that_count() -> None:
    batch = batch_of(talk((1, 1), (1.0, 2.0)))
    shaped = batch.with_reward(torch.tensor([10.0, 20.0]))
    assert ppo(lam=1.0).credit(shaped, Told()).rows.advantage[batch.rows.mask].tolist() == [30.0, 20.0]


def test_whitening_counts_decisions_not_tokens() -> None:
    batch = batch_of(talk((5, 1), (1.0, 0.0)), talk((1, 1), (3.0, 0.0), name="f"))
    rows = ppo(lam=1.0, whiten=True).credit(batch, Told()).rows
    raw = torch.tensor([1.0, 0.0, 3.0, 0.0])
    wanted = (raw - raw.mean()) / raw.std(correction=0)
    found = torch.stack([rows.advantage[rows.turn == t][0] for t in range(4)])
    assert torch.allclose(found, wanted)
    same = batch_of(talk((1,), (2.0,)), talk((1,), (2.0,), name="f"))
    rows = ppo(whiten=True).credit(same, Told()).rows
    assert rows.advantage.tolist() == [0.0] * len(rows), "nothing is divided by no deviation"


def test_a_critic_that_knows_nothing_is_warmed_up_on_returns() -> None:
    batch = batch_of(talk((1, 1), (1.0, 2.0)))
    target_T = ppo(lam_critic=0.0).warming().credit(batch, Told([50.0, 60.0])).target_T
    assert target_T is not None
    assert target_T[batch.rows.mask].tolist() == [3.0, 2.0]


def test_mistakes_are_named() -> None:
    batch = batch_of(talk((1,), (1.0,)))
    with pytest.raises(UsageError, match="against a critic"):
        ppo().credit(batch, None)
    unread = replace(talk((1,), (1.0,), cut=True), final_prompt_ids=())
    with pytest.raises(ContractError, match=r"episode e was cut off .* final_prompt_ids"):
        ppo().credit(batch_of(unread), Told())
    with pytest.raises(ValueError, match="lam"):
        ppo(lam=1.5)


def test_a_batch_without_a_sampled_token_has_no_credit_to_give() -> None:
    silent = replace(talk((1,), (1.0,)), turns=(replace(turn((1,), (), 8.0), logprobs=(), versions=()),))
    credit = ppo(whiten=True).credit(batch_of(silent), Told())
    assert len(credit.rows) == 0


def test_lambda_of_a_token_reaches_the_end_of_a_long_turn() -> None:
    """0.95 per token forgets the end of a turn of 500 tokens."""
    assert PPO().lam == 0.95
    assert PPO(level="token").lam == 1.0
    assert PPO(level="token", lam=0.9).lam == 0.9
    assert PPO.model_validate(PPO(level="token").model_dump()).lam == 1.0
