from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import TaskSpec
from turnwise.errors import UsageError
from turnwise.tasks.family import SeededFamily, TaskFamily
from turnwise.tasks.rng import Rng
from turnwise.tasks.spec import Split
from turnwise.trainers.collect.sampler import TaskSampler


class Levelled(TaskFamily[TaskSpec]):
    name = "levelled"
    levels = (1, 2, 3)

    def build(self, spec: TaskSpec, rng: Rng) -> TaskSpec:
        return spec


@given(st.integers(1, 20), st.lists(st.integers(1, 9), max_size=6), st.integers(0, 3))
def test_the_cursor_alone_says_what_comes_next(pool: int, draws: list[int], seed: int) -> None:
    straight, parts = (TaskSampler(Levelled(), max_tasks=pool, seed=seed) for _ in range(2))
    wanted = straight.draw(sum(draws) + 3)
    found: list[TaskSpec] = []
    for count in draws:
        resumed = TaskSampler(Levelled(), max_tasks=pool, seed=seed)
        resumed.cursor = parts.cursor
        assert resumed.peek(count) == parts.peek(count)
        found += parts.draw(count)
    assert found + parts.draw(3) == wanted


@given(st.integers(1, 30), st.integers(0, 5))
def test_every_pass_takes_every_task_once(pool: int, seed: int) -> None:
    sampler = TaskSampler(Levelled(), max_tasks=pool, seed=seed)
    first, second = sampler.draw(pool), sampler.draw(pool)
    assert len(set(first)) == pool
    assert set(first) == set(second)
    assert {task.level for task in first} == set(range(1, min(pool, 3) + 1)), "levels are taken in turn"


def test_without_a_pool_every_task_is_new() -> None:
    tasks = TaskSampler(SeededFamily("any"), split="dev").draw(100)
    assert len(set(tasks)) == 100
    assert {str(task.split) for task in tasks} == {"dev"}


def test_levels_can_be_named() -> None:
    assert {task.level for task in TaskSampler(Levelled(), levels=[2]).draw(5)} == {2}


def test_nothing_to_draw_from_is_an_error() -> None:
    with pytest.raises(UsageError, match="max_tasks = 0"):
        TaskSampler(Levelled(), max_tasks=0)
    with pytest.raises(UsageError, match="no levels"):
        TaskSampler(Levelled(), levels=[])


def test_a_split_that_the_family_lacks_is_refused_at_once() -> None:
    class Trained(Levelled):
        splits = (Split.TRAIN, Split.DEV)

    with pytest.raises(UsageError, match="split is test_iid, and family 'levelled' has only train, dev"):
        TaskSampler(Trained(), split="test_iid")
