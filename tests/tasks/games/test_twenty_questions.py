"""The fact table of Twenty Questions, the reader of questions, and the family's splits."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Split
from turnwise.tasks.games.objects import CATEGORIES, SUBSET, SUBSET_ATTRIBUTES, attributes, mask, names, objects
from turnwise.tasks.games.questions import Kind, Reading, core, named, normal
from turnwise.tasks.games.twenty_questions import (
    LEVELLED,
    LEVELS,
    PHRASINGS,
    PUBLISHED,
    TEN_OBJECTS,
    article,
    best_question,
    pool,
    reader,
    separating,
)
from turnwise.tasks.rng import Rng


def test_the_objects_are_lmrl_gyms() -> None:
    assert len(objects()) == len(set(objects())) == 158
    assert len(CATEGORIES) == 17
    assert len(attributes()) >= 25
    assert set(SUBSET) <= set(objects())


def test_every_two_objects_differ_in_an_attribute() -> None:
    signatures = {name: frozenset(a.name for a in attributes().values() if name in a.objects) for name in objects()}
    twins = [pair for pair in itertools.combinations(objects(), 2) if signatures[pair[0]] == signatures[pair[1]]]
    assert not twins, "no questions could tell these apart"


def test_the_subset_is_separated_by_its_own_attributes() -> None:
    known = attributes()
    assert len({tuple(name in known[a].objects for a in SUBSET_ATTRIBUTES) for name in SUBSET}) == len(SUBSET)


@pytest.mark.parametrize("phrasing", PHRASINGS)
def test_every_sentence_that_the_game_offers_is_understood(phrasing: str) -> None:
    voice = PHRASINGS[phrasing]
    for name in objects():
        assert reader().read(voice.guess.format(article(name))) == Reading(Kind.GUESS, name)
    for attribute in attributes().values():
        for phrase in (attribute.phrase, attribute.synonym):
            assert reader().read(voice.ask.format(phrase)) == Reading(Kind.ATTRIBUTE, attribute.name), phrase


def test_every_variant_of_a_name_is_a_guess() -> None:
    for variant, name in names().items():
        assert reader().read(f"Is it a {variant}?") == Reading(Kind.GUESS, name)


@pytest.mark.parametrize(
    ("question", "attribute"),
    [
        ("can you eat it", "food"),
        ("Does it have wheels?", "wheels"),
        ("do people WEAR it??", "wear"),
        ("Does it grow underground", "underground"),
        ("Would you find it in the kitchen?", "kitchen"),
        ("can you write with it?", "writes"),
        ("Does it need electricity to work?", "electric"),
        ("Is the object a mammal?", "animal"),
        ("is it an animal that eats meat", "meat"),
        ("Was it man-made?", "manmade"),
    ],
)
def test_free_paraphrases_are_understood(question: str, attribute: str) -> None:
    assert reader().read(question) == Reading(Kind.ATTRIBUTE, attribute)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "???",
        "why",
        "is it not alive",
        "isn't it an animal?",
        "is it a dog or a cat",
        "is it an animal or a vehicle",
        "is it a dog, a cat, a horse",
        "dog cat banana",
        "is it a dog house shop",
        "it is not a dog",
        "is it " + "a dog " * 30,
    ],
)
def test_what_asks_nothing_or_several_things_is_not_understood_as_a_guess(question: str) -> None:
    reading = reader().read(question)
    assert reading is None or reading.kind is Kind.ATTRIBUTE


@given(st.text(max_size=80))
def test_reading_is_total_and_normalising_idempotent(text: str) -> None:
    reader().read(text)
    assert normal(normal(text)) == normal(text)
    assert core(normal(text)) in normal(text)
    assert named(text, {"dog": "dog"}) in (None, "dog")


@given(st.sets(st.sampled_from(objects()), min_size=2, max_size=20), st.integers(0, 99))
def test_separating_attributes_tell_every_two_candidates_apart(candidates: set[str], seed: int) -> None:
    chosen = separating(sorted(candidates), Rng(seed))
    known = attributes()
    assert len({tuple(name in known[a].objects for a in chosen) for name in candidates}) == len(candidates)


def test_the_best_question_halves_what_is_possible() -> None:
    asked = tuple(attributes())
    best = best_question(objects(), asked)
    assert best is not None
    yes = len(attributes()[best].objects)
    assert abs(2 * yes - 158) == min(abs(2 * len(a.objects) - 158) for a in attributes().values())
    assert best_question(["dog", "cat"], asked) is None, "with two left, guessing is as good as asking"
    assert mask(["basketball", "baseball"]) == 0b101


@pytest.mark.slow
def test_held_out_objects_are_in_no_other_split() -> None:
    seen = {split: set[str]() for split in Split}
    for split in Split:
        for spec in LEVELLED.sample(25, split=split):
            seen[split].update(LEVELLED.generate(spec).candidates)
    held = seen[Split.TEST_ENTITY] | seen[Split.CHALLENGE]
    rest = seen[Split.TRAIN] | seen[Split.DEV] | seen[Split.TEST_IID] | seen[Split.TEST_TEMPLATE]
    assert not held & rest
    assert len(pool(Split.TEST_ENTITY)) >= LEVELS[5].candidates, "the largest level fits into the held-out objects"


def test_held_out_phrasings_are_in_no_other_split() -> None:
    templates = {split: set(LEVELLED.templates(split)) for split in Split}
    held = templates[Split.TEST_TEMPLATE] | templates[Split.CHALLENGE]
    assert not held & (templates[Split.TRAIN] | templates[Split.DEV] | templates[Split.TEST_ENTITY])


def test_the_fixed_games_hide_every_object_once() -> None:
    for family, hidden in ((TEN_OBJECTS, SUBSET), (PUBLISHED, objects())):
        assert family.seeds == len(hidden)
        assert [family.generate(family.spec(seed)).secret for seed in range(family.seeds)] == list(hidden)
