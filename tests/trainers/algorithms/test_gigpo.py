from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.algorithms.gigpo import GiGPO, anchors
from turnwise.trainers.algorithms.grpo import GRPO

from .batches import Rewards, batch, mean, per_turn, tasks, to_go


@pytest.mark.slow
@given(tasks, st.data(), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0, 2.0]))
def test_credit_is_that_of_the_episode_and_that_among_turns_in_the_same_state(
    rewards: Rewards, data: st.DataObject, gamma: float, omega: float
) -> None:
    """``A_E + ω A_S`` by brute force: for every turn, look up all turns of the task with the same key."""
    states = [[[data.draw(st.sampled_from("abc")) for _ in paid] for paid in tries] for tries in rewards]
    wanted = []
    for tries, keys in zip(rewards, states, strict=True):
        returns = [sum(paid) for paid in tries]
        steps = [
            (key, value)
            for paid, seen in zip(tries, keys, strict=True)
            for key, value in zip(seen, to_go(paid, gamma), strict=True)
        ]
        owners = [value for value, paid in zip(returns, tries, strict=True) for _ in paid]
        for (key, value), total in zip(steps, owners, strict=True):
            same = [other for state, other in steps if state == key]
            wanted.append(total - mean(returns) + omega * (value - mean(same)))
    found = per_turn(GiGPO(gamma=gamma, omega=omega), batch(rewards, states))
    assert found == pytest.approx(wanted, abs=1e-5)


def test_the_same_state_of_another_task_is_another_state() -> None:
    given_ = batch([[[1.0]], [[1.0]]], [[["s"]], [["s"]]])
    assert anchors(given_).tolist() == [0, 1]


def test_without_keys_the_observation_stands_for_the_state() -> None:
    """The fakes' observations name turn and attempt, so that only equal texts meet; a key is never taken for a text."""
    keys: list[list[list[str | None]]] = [[[None, "turn 0 of 0"], [None, None]]]
    given_ = batch([[[1.0, 0.0], [0.0, 1.0]]], keys)
    assert anchors(given_).tolist() == [0, 1, 2, 3]
    again = batch([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert anchors(again).tolist() == [0, 1, 2, 3], "equal texts of two tasks"


def test_a_state_seen_once_leaves_what_grpo_says() -> None:
    rewards = [[[1.0, 0.0], [0.0, 0.0, 3.0]]]
    assert per_turn(GiGPO(), batch(rewards)) == per_turn(GRPO(), batch(rewards))


def test_two_actions_in_one_state_are_told_apart_where_the_episodes_returns_are_equal() -> None:
    """GiGPO's addition: both episodes return 1, but from the state they share one action leads there sooner."""
    states = [[["start", "fork", "goal"], ["start", "fork", "detour"]]]
    found = per_turn(GiGPO(gamma=0.5), batch([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]], states))
    assert found == [0.125, 0.25, 0.0, -0.125, -0.25, 0.0]
