"""The tasks of an evaluation: deterministic, balanced, distinct, and never from the training split by accident."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Rng, Split, TaskFamily, TaskSpec
from turnwise.errors import UsageError
from turnwise.evals.sampling import default_splits, sample_tasks


class Levelled(TaskFamily[TaskSpec]):
    name = "levelled"
    levels = (1, 2, 3)
    splits = (Split.TRAIN, Split.DEV, Split.TEST_IID, Split.TEST_TEMPLATE, Split.CHALLENGE)

    def build(self, spec: TaskSpec, rng: Rng) -> TaskSpec:
        return spec


class Fixed(TaskFamily[TaskSpec]):
    name = "fixed"
    levels = (1,)
    splits = (Split.TRAIN,)
    seeds = 25

    def build(self, spec: TaskSpec, rng: Rng) -> TaskSpec:
        return spec


@pytest.mark.slow
@given(n=st.integers(1, 80), seed=st.integers(0, 3), levels=st.sets(st.sampled_from([1, 2, 3])))
def test_sample_is_pure_distinct_balanced_and_a_beginning_of_larger_ones(n: int, seed: int, levels: set[int]) -> None:
    sample = sample_tasks(Levelled(), n, seed=seed, levels=sorted(levels))
    assert sample == sample_tasks(Levelled(), n, seed=seed, levels=sorted(levels))
    assert len(sample.tasks) == len({task.digest for task in sample.tasks}) == n
    cells = Counter((task.level, task.split) for task in sample.tasks)
    expected = (len(levels) or 3) * 2
    counts = [*cells.values(), *[0] * (expected - len(cells))]
    assert max(counts) - min(counts) <= 1, "no level or split may weigh more than another"
    larger = sample_tasks(Levelled(), n + 10, seed=seed, levels=sorted(levels)).tasks
    assert larger[:n] == sample.tasks, "a resumed run may be made longer"


def test_default_is_every_test_split_and_never_train() -> None:
    assert default_splits(Levelled()) == (Split.TEST_IID, Split.TEST_TEMPLATE)
    assert {task.split for task in sample_tasks(Levelled(), 12).tasks} == {Split.TEST_IID, Split.TEST_TEMPLATE}


def test_other_seeds_are_other_tasks() -> None:
    first, second = ({task.digest for task in sample_tasks(Levelled(), 200, seed=seed).tasks} for seed in (0, 1))
    assert not first & second


@pytest.mark.parametrize("seed", [0, 7])
def test_a_fixed_list_is_played_once_and_said_to_be_short(seed: int) -> None:
    sample = sample_tasks(Fixed(), 100, seed=seed)
    assert sorted(task.seed for task in sample.tasks) == list(range(25))
    assert sample.notes == ("100 tasks were asked for; there are only 25 in train",)


def test_chosen_parts_are_the_only_ones() -> None:
    sample = sample_tasks(Levelled(), 5, splits=[Split.CHALLENGE], levels=[3])
    assert {(task.split, task.level) for task in sample.tasks} == {(Split.CHALLENGE, 3)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "must be at least 1"),
        ({"n": 3, "splits": [Split.TEST_ENTITY]}, "no split test_entity; choose from train, dev"),
        ({"n": 3, "levels": [9]}, "no level 9; choose from 1, 2, 3"),
    ],
)
def test_wrong_wishes_are_refused_with_what_there_is(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sample_tasks(Levelled(), **arguments)  # type: ignore[arg-type]


class Few(TaskFamily[int]):
    name = "few"
    splits = (Split.TEST_IID,)

    def build(self, spec: TaskSpec, rng: Rng) -> int:
        return rng.randrange(4)


def test_seeds_that_name_the_same_instance_are_one_task() -> None:
    sample = sample_tasks(Few(), 50)
    assert sorted(Few().generate(task) for task in sample.tasks) == [0, 1, 2, 3], "each instance once"
    assert "only 4" in sample.notes[0]
