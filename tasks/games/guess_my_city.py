"""Guess My City: a hundred real cities, and a leveled family of invented ones that no model can have memorized.

Rules (LMRL-Gym, arXiv 2311.18232): −1 for every question, 0 for the guess that names the city, at most twenty turns.
The published game answers with a fine-tuned T5, which reveals names. Here a fact table answers, and the leak guard
withholds every answer that contains the city's name.

Measured with the oracle (it asks for the fact with the greatest information gain); ``LEVELS`` over 200 training tasks
each:

| task               | cities | facts | limit | turns, mean | turns, max |
|--------------------|-------:|------:|------:|------------:|-----------:|
| ``REAL`` (all 100) |    100 |    11 |    20 |        2.51 |          3 |
| level 1            |      6 |     3 |     5 |        2.70 |          4 |
| level 2            |      8 |     4 |     6 |        3.06 |          5 |
| level 3            |     12 |     5 |     8 |        3.39 |          5 |
| level 4            |     18 |     6 |    10 |        3.74 |          5 |
| level 5            |     28 |     8 |    12 |        4.07 |          6 |
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from ...errors import TaskError
from ..family import TaskFamily
from ..rng import Rng
from ..spec import Split, TaskSpec
from .cities import FACTS, City, real_cities
from .questions import LONGEST, named, normal

TURNS = 20
WITHHELD = "I can't answer that without giving away the name."
LIVING = re.compile(r"^(?:so )?(?:do you live in|are you from|were you born in|you live in|you are from|is it in) ")
CLOSED = re.compile(r"^(?:so )?(?:is|are|was|does|do|did|can|has|have|am i right)\b")
ASKS_NAME = re.compile(r"\b(?:name|called|which city|what city|where (?:are you|do you|is it))\b")


@dataclass(frozen=True)
class GuessMyCity:
    """One city to find.

    Args:
        secret: the city.
        cities: possible cities.
        facts: keys of the facts that questions may ask for.
        turns: turn limit.
        formal: whether questions and answers use the held-out wording.
        listed: whether the first observation lists the facts of all cities.
    """

    secret: City
    cities: tuple[City, ...]
    facts: tuple[str, ...]
    turns: int = TURNS
    formal: bool = False
    listed: bool = True

    def answer(self, city: City, fact: str, guard: bool = True) -> str:
        """Return the answer about ``fact`` if ``city`` were the secret.

        Args:
            city: the city in question.
            fact: key of ``FACTS``.
            guard: whether to withhold an answer that contains one of the city's names.
        """
        value, known = city.facts[fact], FACTS[fact]
        text = known.answers[self.formal].format(value) if value else known.none
        return WITHHELD if guard and leaks(text, city) else text

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it ever changes, so forks may share it


@dataclass(frozen=True, slots=True)
class GuessMyCityLevel:
    """Parameters of a level.

    Args:
        cities: number of cities.
        facts: number of facts that questions may ask for.
        turns: turn limit.
    """

    cities: int
    facts: int
    turns: int


LEVELS: Mapping[int, GuessMyCityLevel] = {
    1: GuessMyCityLevel(6, 3, 5),
    2: GuessMyCityLevel(8, 4, 6),
    3: GuessMyCityLevel(12, 5, 8),
    4: GuessMyCityLevel(18, 6, 10),
    5: GuessMyCityLevel(28, 8, 12),
}
SYLLABLES = {
    False: ("ba", "do", "ke", "lu", "mi", "no", "ra", "su", "te", "vo", "zan", "bel", "dor", "lin", "mar", "sol"),
    True: ("cha", "fy", "gwe", "ja", "pho", "qui", "rho", "thu", "wy", "xe", "gral", "jun", "plo", "twin", "yor"),
}
"""Syllables of invented names, in training and held out."""
INVENTED: Mapping[bool, Mapping[str, tuple[str, ...]]] = {
    False: {
        "continent": ("the East", "the West", "the North"),
        "region": ("the Coast", "the Plain", "the Hills"),
        "language": ("Plain Talk", "Court Talk", "Harbor Talk"),
        "money": ("crown", "shell", "penny"),
        "sea": ("the Warm Sea", "the Cold Sea", ""),
        "hemisphere": ("northern", "southern"),
        "capital": ("capital", ""),
        "people": ("1", "3", "8"),
        "known": ("salt", "bridges", "horses", "glass", "bells", "cheese", "kites", "towers", "silk", "gardens"),
    },
    True: {
        "continent": ("the Old Shelf", "the New Shelf", "the Far Shelf"),
        "region": ("the Vale", "the Moor", "the Ridge"),
        "language": ("Low Speech", "High Speech", "Old Speech"),
        "money": ("mark", "groat", "florin"),
        "sea": ("the Gray Sea", "the Calm Sea", ""),
        "hemisphere": ("northern", "southern"),
        "capital": ("capital", ""),
        "people": ("2", "5", "7"),
        "known": ("amber", "clocks", "lanterns", "pepper", "puppets", "orchids", "drums", "tiles", "honey", "canals"),
    },
}
"""Values of invented facts, in training and held out; countries and rivers get invented names."""


class GuessMyCityFamily(TaskFamily[GuessMyCity]):
    """Invented cities whose facts the game lists; held-out names, facts and wordings are in no other split."""

    name = "guess-my-city-levels"
    levels = tuple(LEVELS)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        return ("formal",) if split in (Split.TEST_TEMPLATE, Split.CHALLENGE) else ("plain",)

    def build(self, spec: TaskSpec, rng: Rng) -> GuessMyCity:
        level = LEVELS[spec.level]
        held = spec.split in (Split.TEST_ENTITY, Split.CHALLENGE)
        drawn = rng.sample(tuple(FACTS), level.facts)
        facts = tuple(fact for fact in FACTS if fact in drawn)
        for _ in range(1000):
            cities = _invent(level, facts, held, rng)
            if cities:
                return GuessMyCity(rng.pick(cities), cities, facts, level.turns, spec.template == "formal")
        raise TaskError(f"no {level.cities} cities that differ for {spec}; choose another seed")


class RealCityFamily(TaskFamily[GuessMyCity]):
    """LMRL-Gym's hundred cities: seed n hides the n-th."""

    name = "guess-my-city"
    splits = (Split.TRAIN,)
    seeds = 100

    def build(self, spec: TaskSpec, rng: Rng) -> GuessMyCity:
        cities = real_cities()
        return GuessMyCity(cities[spec.seed], cities, tuple(FACTS), listed=False)


LEVELLED = GuessMyCityFamily()
REAL = RealCityFamily()


def leaks(text: str, city: City) -> bool:
    """Return whether a text contains one of the city's names as words, in any spelling or with any accents."""
    return any(f" {normal(name)} " in f" {normal(text)} " for name in city.names)


def guessed(text: str, cities: Sequence[City]) -> City | None:
    """Return the one city that a message guesses; ``None`` if it names several."""
    by_name = {normal(name): city.name for city in cities for name in city.names}
    name = named(text, by_name) or named(LIVING.sub("", normal(text)), by_name)
    return next((city for city in cities if city.name == name), None)


def asked_fact(text: str) -> str | None:
    """Return the fact that a question asks for, by its canonical form or by keywords; ``None`` if none or several."""
    words = normal(text)
    if len(words.split()) > LONGEST:
        return None
    canonical = _canonical().get(words)
    if canonical:
        return canonical
    hits = {
        fact: max((len(word) for word in known.keywords if f" {word} " in f" {words} "), default=0)
        for fact, known in FACTS.items()
    }
    found = sorted((length, fact) for fact, length in hits.items() if length)
    if not found or " or " in words or (len(found) > 1 and found[-2][0] == found[-1][0]):
        return None
    return found[-1][1]


def asked_value(text: str, game: GuessMyCity) -> str | None:
    """Return the value that a closed question proposes ("Is it in Asia?"), the longest if one contains another."""
    words = f" {normal(text)} "
    if not CLOSED.match(words.strip()) or words.strip() in _canonical() or " or " in words:
        return None
    values = {value for city in game.cities for fact, value in city.facts.items() if fact in game.facts and value}
    found = [
        value for value in values if f" {_bare(value)} " in words and not any(leaks(value, c) for c in game.cities)
    ]
    return max(found, key=lambda value: (len(value), value), default=None)


def asks_name(text: str) -> bool:
    """Return whether a message asks for the name itself."""
    return bool(ASKS_NAME.search(normal(text)))


def best_fact(alive: Collection[City], game: GuessMyCity) -> str | None:
    """Return the fact whose answer reveals most about the city; ``None`` when it is time to guess."""
    if len(alive) <= 2:
        return None
    best = max(game.facts, key=lambda fact: _entropy(Counter(game.answer(city, fact) for city in alive)))
    return best if len({game.answer(city, best) for city in alive}) > 1 else None


def sheet(game: GuessMyCity) -> str:
    """Return the facts of every city of a game, one city per line."""
    return "\n".join(
        f"{city.name}: " + "; ".join(FACTS[fact].label.format(city.facts[fact] or "none") for fact in game.facts)
        for city in game.cities
    )


@lru_cache(maxsize=1)
def _canonical() -> dict[str, str]:
    return {normal(question): fact for fact, known in FACTS.items() for question in known.questions}


def _bare(value: str) -> str:
    words = normal(value)
    return words.removeprefix("the ").removeprefix("a ").removeprefix("an ").removesuffix(" river")


def _entropy(counts: Mapping[str, int]) -> float:
    total = sum(counts.values())
    return -sum(n / total * math.log2(n / total) for n in counts.values())


def _invent(level: GuessMyCityLevel, facts: Sequence[str], held: bool, rng: Rng) -> tuple[City, ...]:
    """Draw cities with distinct names and distinct facts; return none if the draw failed."""
    names = _words(level.cities + 5, held, rng)
    values = {
        **INVENTED[held],
        "country": tuple(f"{names.pop()}land" for _ in range(3)),
        "river": (f"{names.pop()} River", f"{names.pop()} River", ""),
        "known": tuple(rng.sample(INVENTED[held]["known"], 3)),
    }
    rows = {tuple(rng.pick(values[fact]) for fact in facts) for _ in range(4 * level.cities)}
    if len(rows) < level.cities:
        return ()
    rest = {fact: "" for fact in FACTS if fact not in facts}
    chosen = rng.sample(sorted(rows), level.cities)
    return tuple(
        City(name, (), {**dict(zip(facts, row, strict=True)), **rest})
        for name, row in sorted(zip(names, chosen, strict=True))
    )


def _words(count: int, held: bool, rng: Rng) -> list[str]:
    made: dict[str, None] = {}
    while len(made) < count:
        made["".join(rng.sample(SYLLABLES[held], rng.randint(2, 3))).capitalize()] = None
    return list(made)
