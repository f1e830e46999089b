from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Outcome
from turnwise.errors import ContractError, UnscoredEpisodeError, UsageError
from turnwise.trainers.algorithms.ppo import PPO
from turnwise.trainers.archer import ArcherTrainer
from turnwise.trainers.learning.advantages import (
    Scale,
    beyond_rounding,
    bootstraps,
    centered,
    final_prompt,
    large_enough,
    leave_one_out,
    turn_gae,
    turn_returns,
    turn_rewards,
)
from turnwise.trainers.learning.groups import Group, grouped, members
from turnwise.trainers.on_policy import OnPolicyTrainer

from ..fakes import comparing, episode, returning, turn

reward = st.floats(-100, 100, allow_nan=False, width=32)
rewards = st.lists(reward, min_size=2, max_size=8)


def together(values: list[float]) -> torch.Tensor:
    """All in one group."""
    return torch.zeros(len(values), dtype=torch.long)


@given(rewards)
def test_leave_one_out_is_the_return_minus_the_mean_of_the_others(values: list[float]) -> None:
    advantage = leave_one_out(torch.tensor(values, dtype=torch.float64), together(values), rounding=0.0)
    for i, value in enumerate(values):
        others = [v for j, v in enumerate(values) if j != i]
        assert float(advantage[i]) == pytest.approx(value - sum(others) / len(others), abs=1e-9)


@given(rewards, reward)
def test_group_advantages_ignore_a_constant_and_sum_to_zero(values: list[float], shift: float) -> None:
    here = leave_one_out(torch.tensor(values, dtype=torch.float64), together(values), rounding=0.0)
    there = leave_one_out(torch.tensor(values, dtype=torch.float64) + shift, together(values), rounding=0.0)
    assert torch.allclose(here, there, atol=1e-9)
    assert abs(float(here.sum())) < 1e-8


@given(rewards)
def test_leave_one_out_is_mean_centring_times_k_over_k_minus_one(values: list[float]) -> None:
    group = Group("g0", tuple(returning(value) for value in values))
    k = len(values)
    assert torch.allclose(leave_one_out(*comparing([group])), centered(*comparing([group])) * k / (k - 1), atol=1e-4)


def test_standard_deviation_is_off_unless_asked_for() -> None:
    group = Group("g0", (returning(0.0), returning(4.0)))
    assert centered(*comparing([group])).tolist() == [-2.0, 2.0]
    assert centered(*comparing([group]), scale="group").tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5], abs=1e-4)


@given(st.lists(rewards, min_size=1, max_size=4))
def test_groups_do_not_influence_one_another(many: list[list[float]]) -> None:
    groups = [Group(f"g{i}", tuple(returning(v, group=f"g{i}") for v in vs)) for i, vs in enumerate(many)]
    alone = torch.cat([leave_one_out(*comparing([group])) for group in groups])
    assert torch.equal(leave_one_out(*comparing(groups)), alone)


def test_grouping_sets_unscored_episodes_apart_and_keeps_order() -> None:
    episodes = [
        returning(1.0, group="b", name="b0"),
        returning(2.0, group="a", name="a0"),
        returning(9.0, group="b", name="b1", outcome=Outcome.INFRA_FAILED),
        returning(3.0, group="b", name="b2", outcome=Outcome.TRUNCATED),
    ]
    groups = grouped(episodes)
    assert [(g.group_id, g.returns, g.excluded) for g in groups] == [("b", (1.0, 3.0), 1), ("a", (2.0,), 0)]
    assert [e.episode_id for e in members(groups)] == ["b0", "b2", "a0"]


@pytest.mark.parametrize("outcome", [Outcome.INFRA_FAILED, Outcome.CANCELLED])
def test_a_group_cannot_be_built_with_an_unscored_member(outcome: Outcome) -> None:
    with pytest.raises(UnscoredEpisodeError, match="cannot be a member"):
        Group("g0", (returning(1.0), returning(0.0, outcome=outcome)))


def test_a_group_cannot_be_built_with_a_member_of_another() -> None:
    with pytest.raises(UsageError, match="is of group g1, not g0"):
        Group("g0", (returning(1.0, group="g1"),))


def test_turn_returns_discount_per_turn() -> None:
    assert turn_returns(torch.tensor([1.0, 0.0, 4.0]), 0.5).tolist() == [2.0, 2.0, 4.0]


turns = st.integers(1, 7).flatmap(
    lambda n: st.tuples(st.lists(reward, min_size=n, max_size=n), st.lists(reward, min_size=n, max_size=n))
)


@given(turns, st.floats(0, 1), st.one_of(st.none(), reward))
def test_gae_at_lambda_one_is_the_return_minus_the_value(
    pair: tuple[list[float], list[float]], gamma: float, bootstrap: float | None
) -> None:
    rewards_U, values_U = (torch.tensor(part, dtype=torch.float64) for part in pair)
    advantage, target = turn_gae(rewards_U, values_U, bootstrap=bootstrap, gamma=gamma, lam=1.0)
    rewards_U[-1] += gamma * (bootstrap or 0.0)
    assert torch.allclose(target, turn_returns(rewards_U, gamma), atol=1e-6)
    assert torch.allclose(advantage, target - values_U, atol=1e-6)


@given(turns, st.floats(0, 1), reward)
def test_gae_at_lambda_zero_is_the_td_error(
    pair: tuple[list[float], list[float]], gamma: float, bootstrap: float
) -> None:
    rewards_U, values_U = (torch.tensor(part, dtype=torch.float64) for part in pair)
    advantage, _ = turn_gae(rewards_U, values_U, bootstrap=bootstrap, gamma=gamma, lam=0.0)
    following = torch.cat([values_U[1:], torch.tensor([bootstrap], dtype=torch.float64)])
    assert torch.allclose(advantage, rewards_U + gamma * following - values_U, atol=1e-6)


def test_gae_refuses_a_value_too_few() -> None:
    with pytest.raises(UsageError, match="2 rewards and 1 values"):
        turn_gae(torch.zeros(2), torch.zeros(1), bootstrap=None, gamma=1.0, lam=1.0)


def test_only_a_time_limit_leaves_a_state_with_a_value() -> None:
    one = [turn((1,), (2,), 3.0)]
    assert bootstraps(episode(one, outcome=Outcome.TRUNCATED))
    assert not bootstraps(episode(one, outcome=Outcome.COMPLETED))
    assert not bootstraps(episode(one, outcome=Outcome.POLICY_FAILED))
    assert turn_rewards(episode(one)).tolist() == [3.0]


def test_a_state_that_has_a_value_must_be_known() -> None:
    cut = episode([turn((1,), (2,), 0.0)], name="e", outcome=Outcome.TRUNCATED)
    with pytest.raises(ContractError, match="episode e was cut off by a limit and has no final_prompt_ids"):
        final_prompt(cut)
    assert final_prompt(replace(cut, final_prompt_ids=(1, 2, 3))) == (1, 2, 3)


@pytest.mark.parametrize("trainer", [OnPolicyTrainer, ArcherTrainer])
def test_a_state_beyond_the_context_drops_its_episode_and_not_the_run(trainer: type[Any]) -> None:
    opened = object.__new__(trainer)
    opened.config = SimpleNamespace(algorithm=PPO(), gamma=1.0)
    opened.run = SimpleNamespace(model=SimpleNamespace(config=SimpleNamespace(max_position_embeddings=4)))
    cut = episode([turn((1,), (2,), 0.0)], name="e", outcome=Outcome.TRUNCATED)
    opened.check(replace(cut, final_prompt_ids=(1, 2, 3, 4)))
    with pytest.raises(ContractError, match="its next prompt of 5 tokens exceeds the context of 4"):
        opened.check(replace(cut, final_prompt_ids=(1, 2, 3, 4, 5)))
    opened.check(replace(cut, outcome=Outcome.COMPLETED, final_prompt_ids=()))


@given(
    st.lists(st.integers(-3, 3), min_size=2, max_size=8),
    st.sampled_from([2.0**-20, 2.0**-7, 1.0, 2.0**10]),
)
def test_the_smallest_advantage_is_the_same_in_any_unit_of_reward(returns: list[int], unit: float) -> None:
    """An absolute threshold of .01 left out all returns of size .01."""
    one, group = torch.tensor(returns, dtype=torch.float32), torch.zeros(len(returns), dtype=torch.long)

    def kept(return_E: torch.Tensor) -> list[bool]:
        advantage_E = leave_one_out(return_E, group)
        return (large_enough(advantage_E, 0.01) & beyond_rounding(advantage_E, return_E)).tolist()

    assert kept(one * unit) == kept(one)
    assert any(kept(one)) == (len(set(returns)) > 1)


def test_rounding_is_no_advantage() -> None:
    return_E = torch.tensor([70.0, 70.00001, 70.0])
    advantage_E = leave_one_out(return_E, torch.zeros(3, dtype=torch.long), rounding=0.0)
    assert advantage_E.any()
    assert not leave_one_out(return_E, torch.zeros(3, dtype=torch.long)).any()
    other = torch.tensor([0, 0, 0, 1, 1])  # of a group with smaller returns, the same difference is none of rounding
    both = torch.cat([return_E, torch.tensor([1.0, 1.00001])])
    for scale in get_args(Scale):
        assert centered(both, other, scale=scale).bool().tolist() == [False, False, False, True, True]
    assert not beyond_rounding(advantage_E, return_E).any()
    assert large_enough(torch.tensor([-2.0, 0.01, 0.03, 0.0]), 0.01).tolist() == [True, False, True, False]
    assert large_enough(torch.zeros(3), 0.0).all(), "a share of 0 leaves out nothing: other terms of the loss may count"
