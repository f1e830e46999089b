"""Families: which tasks exist, and the pure function that makes them."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.errors import TaskError
from turnwise.tasks.family import SeededFamily, TaskFamily
from turnwise.tasks.spec import Split, TaskSpec


@dataclass(frozen=True)
class Sum:
    """Two numbers to add."""

    left: int
    right: int


class Sums(TaskFamily[Sum]):
    name = "sums"
    levels = (1, 2, 4)
    splits = (Split.TRAIN, Split.TEST_TEMPLATE)

    def templates(self, split: Split) -> tuple[str, ...]:
        return ("words", "digits") if split is Split.TRAIN else ("roman",)

    def build(self, spec: TaskSpec, rng: tw.Rng) -> Sum:
        return Sum(rng.randrange(10**spec.level), rng.randrange(10**spec.level))


class Few(Sums):
    name = "few"
    seeds = 3


specs = st.builds(
    lambda seed, split, level: Sums().spec(seed, split=split, level=level),
    st.integers(0, 10**6),
    st.sampled_from(Sums.splits),
    st.sampled_from(Sums.levels),
)


@given(specs)
def test_a_task_is_a_pure_function_of_its_spec(spec: TaskSpec) -> None:
    random.seed(spec.seed)
    state = random.getstate()
    task = Sums().generate(spec)
    assert (
        task == Sums().generate(spec) == pickle.loads(pickle.dumps(Sums())).generate(TaskSpec.from_json(spec.to_json()))
    )
    assert random.getstate() == state


@given(specs)
def test_what_spec_makes_can_be_generated(spec: TaskSpec) -> None:
    Sums().check(spec)
    assert spec.template in Sums().templates(spec.split)


def test_an_omitted_template_is_drawn_by_the_seed() -> None:
    drawn = {Sums().spec(seed).template for seed in range(30)}
    assert drawn == {"words", "digits"}
    assert [Sums().spec(seed).template for seed in range(9)] == [Sums().spec(seed).template for seed in range(9)]
    assert Sums().spec(3, template="words").template == "words"
    assert Sums().spec(0).level == 1


@given(st.integers(0, 40), st.integers(0, 100))
def test_a_sample_has_consecutive_seeds_and_takes_levels_in_turn(n: int, first: int) -> None:
    sample = list(Sums().sample(n, first_seed=first))
    assert [spec.seed for spec in sample] == list(range(first, first + n))
    assert [spec.level for spec in sample] == [(1, 2, 4)[i % 3] for i in range(n)]
    assert {spec.level for spec in Sums().sample(n, level=2)} <= {2}


def test_a_fixed_list_of_instances_counts_modulo_its_length() -> None:
    assert [spec.seed for spec in Few().sample(7)] == [0, 1, 2, 0, 1, 2, 0]
    with pytest.raises(TaskError, match="seeds 0 to 2; got 3"):
        Few().generate(TaskSpec("few", "words", 1, 3))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (TaskSpec("sumz", "words"), "names family 'sumz', but this is family 'sums'"),
        (TaskSpec("sums", "words", 3), "no level 3; choose one of 1, 2, 4"),
        (TaskSpec("sums", "words", split=Split.DEV), "no split 'dev'; choose one of train, test_template"),
        (TaskSpec("sums", "roman"), "no template 'roman' in split 'train'; choose words, digits"),
        (TaskSpec("sums", "words", split=Split.TEST_TEMPLATE), "no template 'words' in split 'test_template'"),
    ],
)
def test_a_task_that_does_not_exist_is_refused_with_what_does(spec: TaskSpec, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        Sums().generate(spec)


def test_a_spec_that_does_not_exist_is_not_made() -> None:
    for arguments in ({"split": "nowhere"}, {"split": "dev"}, {"level": 3}, {"template": "roman"}):
        with pytest.raises(TaskError):
            Sums().spec(0, **arguments)


def test_the_family_of_an_environment_without_tasks_gives_the_spec_itself() -> None:
    family = pickle.loads(pickle.dumps(SeededFamily("Guess")))
    spec = family.spec(4, split="test_iid")
    assert family.generate(spec) is spec
    assert family.splits == (Split.TRAIN, Split.DEV, Split.TEST_IID), "nothing is held out but seeds"
