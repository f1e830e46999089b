from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Episode, Outcome
from turnwise.rollouts.stats import RunStats
from turnwise.trainers.collect.collect import Collected
from turnwise.trainers.collect.dynamic_sampling import Drawn, DynamicSampling, draw
from turnwise.trainers.learning.groups import Group

from ..fakes import episode, turn


def group(number: int, rewards: list[float]) -> Group:
    """One attempt per reward; a reward above 0 is a success."""

    def attempt(index: int, reward: float) -> Episode:
        turns = [turn((1,), (2,), reward)]
        return episode(turns, group=f"g{number}", name=f"g{number}-{index}", success=reward > 0)

    return Group(f"g{number}", tuple(attempt(index, reward) for index, reward in enumerate(rewards)))


class ProcessGroup:
    """Tasks in a fixed order, of which some teach something."""

    def __init__(self, teaching: list[bool]) -> None:
        self.teaching = teaching
        self.asked: list[int] = []

    async def collect(self, tasks: int) -> Collected:
        first = sum(self.asked)
        self.asked.append(tasks)
        places = range(first, first + tasks)
        groups = [group(place, [0.0, float(self.teaching[place % len(self.teaching)])]) for place in places]
        stats = RunStats(retries=1)
        for member in (member for each in groups for member in each.members):
            stats.add(member)
        return Collected(tuple(groups), stats)


def numbers(drawn: Drawn) -> list[int]:
    return [int(each.group_id[1:]) for each in drawn.groups]


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 5), st.integers(1, 5))
async def test_it_draws_until_enough_groups_teach_and_every_draw_is_accounted_for(
    teaching: list[bool], tasks: int, rounds: int
) -> None:
    """A simulation of the whole law: kept are the first groups that teach, in order, among exactly what was drawn."""
    world = ProcessGroup(teaching)
    drawn = await draw(world.collect, tasks, DynamicSampling(max_rounds=rounds))
    assert drawn.tasks == sum(world.asked), "the cursor moves by what was drawn, no more and no less"
    assert numbers(drawn) == [place for place in range(drawn.tasks) if teaching[place % len(teaching)]]
    assert len(drawn.groups) <= tasks, "nothing that teaches is drawn in vain"
    assert len(drawn.groups) == tasks or len(world.asked) == rounds, "it stops when there are enough, or at the limit"
    metrics = drawn.metrics()
    assert metrics["groups_dropped"] == drawn.tasks - len(drawn.groups)
    assert metrics["episodes"] == 2 * drawn.tasks, "returns are told of all that was played, dropped or not"
    assert drawn.collected.stats.kept.count == 2 * drawn.tasks
    assert metrics["retries"] == metrics["sampling_rounds"] == len(world.asked)


async def test_without_rounds_every_group_is_kept_as_it_came() -> None:
    world = ProcessGroup([False, True])
    drawn = await draw(world.collect, 4, DynamicSampling())
    assert (numbers(drawn), drawn.tasks, world.asked) == ([0, 1, 2, 3], 4, [4])


@pytest.mark.parametrize(
    ("rewards", "most", "kept"),
    [
        ([1.0, 1.0], 1.0, False),  # all alike
        ([0.9, 0.6 + 0.3], 1.0, False),  # alike but for rounding
        ([0.0], 1.0, False),  # no comparison
        ([], 1.0, False),  # all were lost
        ([1.0, 2.0], 1.0, True),  # all succeeded, not equally well
        ([1.0, 2.0], 0.9, False),
        ([1.0, 1.0, 1.0, 0.0], 0.9, True),
        ([1.0, 1.0, 1.0, 0.0], 0.75, True),  # just at the limit
        ([1.0, 1.0, 1.0, 0.0], 0.7, False),
    ],
)
def test_what_teaches(rewards: list[float], most: float, kept: bool) -> None:
    assert DynamicSampling(max_rounds=1, max_pass_rate=most).teaches(group(0, rewards)) is kept


def test_a_pass_rate_without_rounds_is_refused() -> None:
    """It had no effect."""
    with pytest.raises(ValueError, match="max_rounds = 0 keeps every group"):
        DynamicSampling(max_pass_rate=0.9)


def test_a_group_in_which_only_the_policy_failed_teaches() -> None:
    same, late = group(0, [1.0, 1.0]), group(0, [0.0]).members[0]
    assert not DynamicSampling().teaches(same)
    failed = replace(late, outcome=Outcome.POLICY_FAILED)
    assert DynamicSampling().teaches(replace(same, failed=(failed,)))
    found = Collected((replace(same, failed=(failed,)),), RunStats()).metrics()
    assert (found["groups_without_variance"], found["policy_failed"], found["episodes"]) == (0, 1, 2)
