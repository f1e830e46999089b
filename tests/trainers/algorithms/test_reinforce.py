from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.algorithms.reinforce import Reinforce

from .batches import Rewards, batch, mean, per_turn, tasks, to_go

Over = Literal["turn", "episode"]
Baseline = Literal["none", "batch", "turn_index"]


@given(
    tasks, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(["turn", "episode"]), st.sampled_from(["none", "batch"])
)
def test_credit_is_the_return_from_a_turn_on_less_the_mean_of_the_batch(
    rewards: Rewards, gamma: float, over: Over, baseline: Baseline
) -> None:
    """Brute force over every turn of every episode; the groups play no part."""
    episodes = [paid for tries in rewards for paid in tries]
    returns = [to_go(paid, gamma) for paid in episodes]
    if over == "episode":
        returns = [[each[0]] * len(each) for each in returns]
    flat = [value for each in returns for value in each]
    base = mean(flat) if baseline == "batch" else 0.0
    # What is alone in the batch has nothing to be compared with; its mean is itself, and its advantage 0.
    found = per_turn(Reinforce(gamma=gamma, credit_over=over, baseline=baseline), batch(rewards))
    assert found == pytest.approx([value - base for value in flat], abs=1e-5)


@given(tasks)
def test_a_baseline_may_depend_on_the_place_in_the_episode(rewards: Rewards) -> None:
    episodes = [to_go(paid, 1.0) for tries in rewards for paid in tries]
    wanted = [
        value - mean([other[place] for other in episodes if len(other) > place])
        for each in episodes
        for place, value in enumerate(each)
    ]
    assert per_turn(Reinforce(baseline="turn_index"), batch(rewards)) == pytest.approx(wanted, abs=1e-5)
