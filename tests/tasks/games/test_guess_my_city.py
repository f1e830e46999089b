"""The facts of Guess My City, its leak guard, and the invented cities."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Split
from turnwise.tasks.games.cities import FACTS, City, real_cities
from turnwise.tasks.games.guess_my_city import (
    LEVELLED,
    REAL,
    WITHHELD,
    asked_fact,
    asked_value,
    asks_name,
    best_fact,
    guessed,
    leaks,
    sheet,
)

GAME = REAL.generate(REAL.spec(0))
BY_NAME = {city.name: city for city in real_cities()}


def test_there_are_a_hundred_cities_with_every_fact() -> None:
    names = [name for city in real_cities() for name in city.names]
    assert len(real_cities()) == 100
    assert len(names) == len(set(names)), "a name belongs to one city"
    assert all(set(city.facts) == set(FACTS) for city in real_cities())
    empty = [
        (c.name, f) for c in real_cities() for f in FACTS if not c.facts[f] and f not in ("sea", "river", "capital")
    ]
    assert not empty


def test_every_two_cities_differ_in_what_may_be_asked() -> None:
    for one, other in itertools.combinations(real_cities(), 2):
        assert any(GAME.answer(one, fact) != GAME.answer(other, fact) for fact in FACTS), (one.name, other.name)


@pytest.mark.parametrize("formal", [False, True])
def test_no_answer_contains_any_name_of_its_city(formal: bool) -> None:
    game = dataclasses.replace(GAME, formal=formal)
    answers = [(city, game.answer(city, fact)) for city in real_cities() for fact in FACTS]
    assert not [(city.name, text) for city, text in answers if leaks(text, city)]
    assert any(text == WITHHELD for _, text in answers), "the guard had something to withhold"
    leaky = [city for city in real_cities() for fact in FACTS if leaks(game.answer(city, fact, guard=False), city)]
    assert len(leaky) > 30, "without the guard the same facts give names away"


def test_the_guard_sees_through_spelling_but_not_through_words() -> None:
    assert leaks("Its river is the Moskva.", BY_NAME["Moscow"])
    assert leaks("People love BOGOTÁ!", BY_NAME["Bogota"])
    assert leaks("It is Xi'an.", BY_NAME["Xian"])
    assert not leaks("It is known for limas.", BY_NAME["Lima"])
    assert not leaks("It is in Mexico.", BY_NAME["Mexico City"])


@pytest.mark.parametrize("name", ["Paris", "paris?", "Is it Paris?", "My guess is Paris.", "Are you from Paris?",
                                  "Do you live in Paris?", "Could it be the city Paris"])  # fmt: skip
def test_a_guess_names_one_city(name: str) -> None:
    city = guessed(name, real_cities())
    if name.endswith("the city Paris"):
        assert city is None, "what is not understood is no guess"
    else:
        assert city is BY_NAME["Paris"]


def test_every_name_is_a_guess_of_its_city() -> None:
    for city in real_cities():
        for name in city.names:
            assert guessed(f"Is it {name}?", real_cities()) is city


@pytest.mark.parametrize(
    "text", ["Is it Paris or Rome?", "Paris, Rome, Lima", "It is not Paris.", "Paris Hilton", "", "Is it in France?"]
)
def test_what_names_no_city_or_several_is_no_guess(text: str) -> None:
    assert guessed(text, real_cities()) is None


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("What country are you from?", "country"),
        ("Which currency is used there?", "money"),
        ("Is your city on the coast?", "sea"),
        ("Are there any famous landmarks?", "known"),
        ("How big is it?", "people"),
        ("what languages do they speak there", "language"),
        ("Is it north or south of the equator?", None),
        ("Tell me a story", None),
    ],
)
def test_free_questions_find_their_fact(question: str, fact: str | None) -> None:
    assert asked_fact(question) == fact


def test_canonical_questions_find_their_fact() -> None:
    for fact, known in FACTS.items():
        for question in known.questions:
            assert asked_fact(question) == fact
            assert asked_value(question, GAME) is None, "an open question proposes nothing"


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("Is it in Asia?", "Asia"),
        ("Do people there speak Spanish?", "Spanish"),
        ("Is it in North America?", "North America"),
        ("Does the Nile flow through it?", "Nile"),
        ("Is it known for mosques?", "mosques"),
        ("Is it in Asia or Africa?", None),
        ("Which country is it in?", None),
    ],
)
def test_closed_questions_propose_a_value(question: str, value: str | None) -> None:
    assert asked_value(question, GAME) == value


def test_asking_for_the_name_is_recognised() -> None:
    assert asks_name("What is the name of your city?")
    assert asks_name("where are you from")
    assert not asks_name("Which river flows through it?")


@given(st.text(max_size=80))
def test_reading_is_total(text: str) -> None:
    assert guessed(text, real_cities()) is None or text.strip()
    assert asked_fact(text) in {None, *FACTS}
    asked_value(text, GAME)
    asks_name(text)


@pytest.mark.parametrize("split", list(Split))
def test_invented_cities_differ_and_are_listed(split: Split) -> None:
    for spec in LEVELLED.sample(15, split=split):
        game = LEVELLED.generate(spec)
        assert game.secret in game.cities
        rows = {tuple(city.facts[fact] for fact in game.facts) for city in game.cities}
        assert len(rows) == len(game.cities)
        assert len(sheet(game).splitlines()) == len(game.cities)
        assert not [c for c in game.cities for fact in game.facts if leaks(game.answer(c, fact), c)]
        assert best_fact(game.cities, game) in game.facts


def test_held_out_names_and_facts_are_in_no_other_split() -> None:
    def vocabulary(split: Split) -> set[str]:
        games = [LEVELLED.generate(spec) for spec in LEVELLED.sample(25, split=split)]
        cities: list[City] = [city for game in games for city in game.cities]
        return {city.name for city in cities} | {city.facts["known"] for city in cities if city.facts["known"]}

    assert not vocabulary(Split.TRAIN) & vocabulary(Split.TEST_ENTITY)
    assert set(LEVELLED.templates(Split.TRAIN)).isdisjoint(LEVELLED.templates(Split.TEST_TEMPLATE))
