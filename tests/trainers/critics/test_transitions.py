from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Outcome
from turnwise.errors import ContractError, DivergedError, UnscoredEpisodeError, UsageError
from turnwise.trainers.critics.transitions import transitions
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.gae import Decisions
from turnwise.trainers.learning.groups import grouped

from ..fakes import episode, turn


def test_the_next_state_is_the_next_prompt_and_the_end_ends_it() -> None:
    played = episode([turn((1, 2), (3,), -1.0, version=4), turn((1, 5), (6, 7), 2.0, version=5)], name="e7")
    first, last = transitions(played, 0.5)
    assert (first.state_ids, first.action_ids, first.next_ids, first.done) == ((1, 2), (3,), (1, 5), False)
    assert (last.state_ids, last.action_ids, last.next_ids, last.done) == ((1, 5), (6, 7), (), True)
    assert (first.reward, first.mc_return, last.mc_return) == (-1.0, -1.0 + 0.5 * 2.0, 2.0)
    assert (first.version, last.version, last.episode_id, last.turn) == (4, 5, "e7", 1)
    assert last.logprobs == (-1.0, -1.0)


def test_trap_14_a_limit_bootstraps_and_an_end_does_not() -> None:
    cut = replace(episode([turn((1,), (2,), 1.0)], outcome=Outcome.TRUNCATED), final_prompt_ids=(1, 2, 9))
    (only,) = transitions(cut, 0.9)
    assert (only.next_ids, only.done) == ((1, 2, 9), False)
    assert only.mc_return == 1.0, "what was seen, and nothing on top"
    both = replace(cut, turns=(replace(cut.turns[0], terminated=True, truncated=True),))
    assert transitions(both, 0.9)[0].done, "where task and limit end at once, the task decides"


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.floats(0, 1))
def test_returns_are_discounted_per_turn(rewards: list[float], gamma: float) -> None:
    played = episode([turn((1,), (2,) * (1 + i % 3), r) for i, r in enumerate(rewards)])
    for index, found in enumerate(transitions(played, gamma)):
        brute = sum(r * gamma**k for k, r in enumerate(rewards[index:]))
        assert found.mc_return == pytest.approx(brute, abs=1e-9), "whatever the utterances' lengths"


def test_what_cannot_be_learnt_from_is_said() -> None:
    with pytest.raises(UnscoredEpisodeError, match="e1 is infra_failed"):
        transitions(episode([turn((1,), (2,))], name="e1", outcome=Outcome.INFRA_FAILED), 0.9)
    with pytest.raises(UnscoredEpisodeError, match="policy_failed"):
        transitions(episode([turn((1,), (2,))], outcome=Outcome.POLICY_FAILED), 0.9)
    with pytest.raises(ContractError, match="turn 1 of episode e has action ids but no prompt ids"):
        transitions(episode([turn((1,), (2,)), turn((), (3,))]), 0.9)
    with pytest.raises(ContractError, match="no final_prompt_ids"):
        transitions(episode([turn((1,), (2,))], outcome=Outcome.TRUNCATED), 0.9)
    with pytest.raises(ContractError, match="2 action ids and 1 log-probabilities"):
        transitions(episode([replace(turn((1,), (2, 3)), logprobs=(-1.0,))]), 0.9)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), float("-inf")])
def test_a_reward_that_is_no_number_is_refused(reward: float) -> None:
    with pytest.raises(UsageError, match="turn 0 of episode e of test/Fake-v0 has a reward of"):
        transitions(episode([turn((1,), (2,), reward)]), 0.9)


def test_a_log_probability_that_is_not_finite_is_refused() -> None:
    with pytest.raises(DivergedError, match="turn 0 of episode e with a log-probability of nan"):
        transitions(episode([replace(turn((1,), (2,)), logprobs=(float("nan"),))]), 0.9)


def test_an_episode_without_turns_has_no_transitions() -> None:
    assert transitions(episode([]), 0.9) == []


@given(st.lists(st.tuples(st.booleans(), st.floats(-10, 10)), min_size=1, max_size=8), st.floats(0, 1))
def test_an_empty_action_is_folded_into_the_decision_before_it(said: list[tuple[bool, float]], gamma: float) -> None:
    """As PPO does: its reward comes one γ later, and the next state is that of the next decision."""
    played = episode([turn((10 + i,), (2,) if acts else (), r) for i, (acts, r) in enumerate(said)])
    found = transitions(played, gamma)
    acting = [i for i, (acts, _) in enumerate(said) if acts]
    assert [one.turn for one in found] == acting
    for one, end in zip(found, [*acting[1:], len(said)][: len(acting)], strict=True):
        rewards = [r for _, r in said[one.turn : end]]
        assert one.reward == pytest.approx(sum(gamma**k * r for k, r in enumerate(rewards)), abs=1e-9)
        assert one.span == end - one.turn
        assert (one.next_ids, one.done) == (((10 + end,), False) if end < len(said) else ((), True))
    decisions = Decisions.of(Batch.of(grouped([played])), "turn", gamma=gamma)
    assert [one.reward for one in found] == pytest.approx(decisions.reward_S.tolist(), abs=1e-5), "the same as PPO's"
    assert [gamma**one.span for one in found] == pytest.approx(decisions.discount_S.tolist())


def test_the_turns_of_several_players_are_refused() -> None:
    both = [turn((1,), (2,), 1.0), replace(turn((5,), (3,), -1.0), seat="opponent")]
    with pytest.raises(UsageError, match=r"episode duel .* seats agent, opponent, .* train on one episode per seat"):
        transitions(episode(both, name="duel"), 0.9)
