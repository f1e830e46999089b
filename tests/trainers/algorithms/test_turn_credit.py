from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.algorithms.turn_credit import TurnCredit

from .batches import Rewards, batch, mean, per_turn, spread, tasks, to_go


@given(tasks, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0]), st.booleans())
def test_credit_compares_turns_at_the_same_place_of_a_groups_episodes(
    rewards: Rewards, gamma: float, outcome: float, scaled: bool
) -> None:
    wanted = []
    for tries in rewards:
        returns = [sum(paid) for paid in tries]
        following = [to_go(paid, gamma) for paid in tries]
        for total, each in zip(returns, following, strict=True):
            for place, value in enumerate(each):
                peers = [other[place] for other in following if len(other) > place]
                turn, episode = value - mean(peers), total - mean(returns)
                if scaled:
                    turn, episode = turn / (spread(peers) + 1e-4), episode / (spread(returns) + 1e-4)
                wanted.append(turn + outcome * episode)
    algorithm = TurnCredit(gamma=gamma, outcome=outcome, std="group" if scaled else "none")
    assert per_turn(algorithm, batch(rewards)) == pytest.approx(wanted, abs=1e-4)


def test_a_move_that_was_paid_is_not_blamed_for_what_came_before() -> None:
    found = per_turn(TurnCredit(), batch([[[-4.0, 1.0], [0.0, 0.0]]]))
    assert found == [-1.5, 0.5, 1.5, -0.5]
