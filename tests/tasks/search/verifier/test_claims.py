"""Claims about every task hold, and a task that breaks one is detected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from turnwise.tasks.rng import Rng
from turnwise.tasks.search.family import SEARCH_FAMILY
from turnwise.tasks.search.task import SearchTask
from turnwise.tasks.search.templates.catalogue import TEMPLATES
from turnwise.tasks.search.verifier.claims import broken
from turnwise.tasks.spec import Split

from ....shifts import sampled


def split_of(name: str) -> Split:
    return next(split for split in Split if name in SEARCH_FAMILY.templates(split))


def task(name: str, level: int = 2, seed: int = 1) -> SearchTask:
    spec = SEARCH_FAMILY.spec(seed, split=split_of(name), level=level, template=name)
    return SEARCH_FAMILY.generate(spec)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_every_claim_holds(name: str) -> None:
    for level in (1, 2, 3):
        for place in range(3):
            one = task(name, level, 64 * place + 3)
            assert list(broken(one, Rng("claims", place))) == [], one.question


@pytest.mark.shift
@pytest.mark.parametrize("split", Split)
def test_every_claim_holds_of_every_split_and_level(split: Split) -> None:
    for spec in sampled(list(SEARCH_FAMILY.sample(300, split=split)), 60, key=f"claims {split}"):
        one = SEARCH_FAMILY.generate(spec)
        assert list(broken(one, Rng("claims", spec.seed))) == [], spec


def test_a_wrong_answer_is_found_out() -> None:
    one = replace(task("fact-person"), answers=("Nobody Atall",))
    assert any("not answered by one page" in claim for claim in broken(one, Rng("x")))


def test_an_answer_in_the_question_is_found_out() -> None:
    one = task("fact-person")
    leaking = replace(one, question=f"{one.question} ({one.answers[0]})")
    assert "the answer is in the question" in list(broken(leaking, Rng("x")))


def test_missing_evidence_is_found_out() -> None:
    one = task("fact-person", level=3)
    assert list(broken(replace(one, evidence=one.evidence[:-1]), Rng("x")))


def test_evidence_that_leaves_a_page_out_is_found_out() -> None:
    found = 0
    for place in range(30):
        one = task("fact-town", seed=64 * place + 1)
        for i, ids in enumerate(one.evidence):
            if len(ids) > 1:
                few = replace(one, evidence=(*one.evidence[:i], ids[:1], *one.evidence[i + 1 :]))
                assert any("the others still answer it" in claim for claim in broken(few, Rng("x")))
                found += 1
    assert found, "some page has a copy"


def test_superfluous_evidence_is_found_out() -> None:
    one = task("fact-town", level=1)
    beside = next(page.id for page in one.corpus if all(page.id not in ids for ids in one.evidence))
    more = replace(one, evidence=(*one.evidence, (beside,)))
    assert any("still answer it" in claim for claim in broken(more, Rng("x")))


def test_pages_that_are_not_there_are_found_out() -> None:
    one = task("fact-town")
    assert list(broken(replace(one, evidence=(("no such page",),)), Rng("x"))) == [
        "the evidence names pages that are not there"
    ]
