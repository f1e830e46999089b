"""Twenty Questions: LMRL-Gym's 158 objects, ArCHer's subset of ten, and a leveled family with held-out objects.

Rules (LMRL-Gym, arXiv 2311.18232): −1 for every question, 0 for the question that names the object, at most twenty
turns. The published game answers with a fine-tuned T5; here a hand-checked table answers.

Measured with the oracle (greedy information gain over the possible objects); ``LEVELS`` over 200 training tasks each:

| task                    | candidates | attributes | limit | turns, mean | turns, max |
|-------------------------|-----------:|-----------:|------:|------------:|-----------:|
| ``PUBLISHED`` (all 158) |        158 |        123 |    20 |        8.58 |         15 |
| ``TEN_OBJECTS`` (all)   |         10 |         12 |    20 |        4.00 |          5 |
| level 1                 |          6 |          5 |     6 |        3.27 |          5 |
| level 2                 |         10 |          8 |     8 |        4.11 |          6 |
| level 3                 |         16 |         12 |    10 |        4.99 |          8 |
| level 4                 |         24 |         18 |    12 |        5.50 |         10 |
| level 5                 |         36 |         28 |    16 |        6.20 |         11 |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from ..family import TaskFamily
from ..rng import Rng, unit_hash
from ..spec import Split, TaskSpec
from .objects import SUBSET, SUBSET_ATTRIBUTES, attributes, mask, masks, names, objects
from .questions import Reader

TURNS = 20
HELD_OUT = 0.3
"""Share of the objects that only ``test_entity`` and ``challenge`` use."""
UNCOUNTED = frozenset(
    {"pants", "shoes", "boots", "socks", "headphones", "scissors", "peas", "chopsticks", "earrings", "gloves", "pliers"}
    | {"paper", "toothpaste", "glue", "spinach", "broccoli", "celery", "corn"}
)
"""Objects that take no article."""


@dataclass(frozen=True)
class TwentyQuestions:
    """One object to find.

    Args:
        secret: the object.
        candidates: possible objects.
        attributes: names of the attributes that questions may ask for.
        turns: turn limit.
        phrasing: key of ``PHRASINGS``, the game's wording.
        listed: whether the first observation lists candidates and attributes.
    """

    secret: str
    candidates: tuple[str, ...]
    attributes: tuple[str, ...]
    turns: int = TURNS
    phrasing: str = "plain"
    listed: bool = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it ever changes, so forks may share it


@dataclass(frozen=True, slots=True)
class Phrasing:
    """The wording of questions and answers.

    Args:
        ask: question with a slot for an attribute's phrase.
        guess: guess with a slot for an object with its article.
        synonyms: whether attributes use their second phrase.
        opening: first line of a listed game.
        yes: affirmative answer.
        no: negative answer.
    """

    ask: str
    guess: str
    synonyms: bool
    opening: str
    yes: str = "Yes."
    no: str = "No."


PHRASINGS: Mapping[str, Phrasing] = {
    "plain": Phrasing("Is it {}?", "Is it {}?", False, "I am thinking of one of these:"),
    "object": Phrasing("Is the object {}?", "Is the object {}?", False, "The object is one of these:"),
    "curious": Phrasing("I wonder if it is {}?", "My guess is {}.", False, "It is one of these things:"),
    "formal": Phrasing(
        "Would you say that it is {}?",
        "Could it be {}?",
        True,
        "Exactly one of the following has been chosen:",
        "That is correct.",
        "That is not correct.",
    ),
}
TRAIN_PHRASINGS = ("plain", "object", "curious")
HELD_OUT_PHRASINGS = ("formal",)


@dataclass(frozen=True, slots=True)
class TwentyQuestionsLevel:
    """Parameters of a level.

    Args:
        candidates: number of possible objects.
        attributes: number of attributes that questions may ask for; more if fewer do not separate the candidates.
        turns: turn limit.
    """

    candidates: int
    attributes: int
    turns: int


LEVELS: Mapping[int, TwentyQuestionsLevel] = {
    1: TwentyQuestionsLevel(6, 5, 6),
    2: TwentyQuestionsLevel(10, 8, 8),
    3: TwentyQuestionsLevel(16, 12, 10),
    4: TwentyQuestionsLevel(24, 18, 12),
    5: TwentyQuestionsLevel(36, 28, 16),
}


class TwentyQuestionsFamily(TaskFamily[TwentyQuestions]):
    """Random sets of listed candidates and attributes. Held-out objects and phrasings are in no other split."""

    name = "twenty-questions-levels"
    levels = tuple(LEVELS)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        held = split in (Split.TEST_TEMPLATE, Split.CHALLENGE)
        return HELD_OUT_PHRASINGS if held else TRAIN_PHRASINGS

    def build(self, spec: TaskSpec, rng: Rng) -> TwentyQuestions:
        level = LEVELS[spec.level]
        candidates = tuple(sorted(rng.sample(pool(spec.split), level.candidates)))
        asked = separating(candidates, rng)
        spare = sorted(attributes().keys() - set(asked))
        useful = [name for name in spare if len(attributes()[name].objects & set(candidates)) > 0]
        asked += rng.sample(useful, min(len(useful), max(0, level.attributes - len(asked))))
        return TwentyQuestions(rng.pick(candidates), candidates, tuple(sorted(asked)), level.turns, spec.template)


class PublishedTwentyQuestions(TaskFamily[TwentyQuestions]):
    """LMRL-Gym's game over all 158 objects, without lists: seed n hides the n-th."""

    name = "twenty-questions"
    splits = (Split.TRAIN,)
    seeds = 158

    def build(self, spec: TaskSpec, rng: Rng) -> TwentyQuestions:
        return TwentyQuestions(objects()[spec.seed], objects(), tuple(attributes()), listed=False)


class SubsetTwentyQuestions(TaskFamily[TwentyQuestions]):
    """ArCHer's game over ten objects, with the questions that separate them: seed n hides the n-th."""

    name = "twenty-questions-subset"
    splits = (Split.TRAIN,)
    seeds = len(SUBSET)

    def build(self, spec: TaskSpec, rng: Rng) -> TwentyQuestions:
        return TwentyQuestions(SUBSET[spec.seed], SUBSET, SUBSET_ATTRIBUTES)


LEVELLED = TwentyQuestionsFamily()
PUBLISHED = PublishedTwentyQuestions()
TEN_OBJECTS = SubsetTwentyQuestions()


def pool(split: Split) -> list[str]:
    """Return the objects that a split may use."""
    held = split in (Split.TEST_ENTITY, Split.CHALLENGE)
    return [name for name in objects() if (unit_hash("twenty-questions", name) < HELD_OUT) is held]


def separating(candidates: Sequence[str], rng: Rng) -> list[str]:
    """Return attributes that together separate all candidates, added greedily by the pairs that each separates."""
    order = list(attributes())
    rng.shuffle(order)
    chosen, groups = list[str](), [mask(candidates)]
    while any(group & (group - 1) for group in groups):  # more than one bit is set
        best = max(order, key=lambda name: sum(_separated(group, masks()[name]) for group in groups))
        chosen.append(best)
        having = masks()[best]
        groups = [part for group in groups for part in (group & having, group & ~having) if part & (part - 1)]
    return chosen


def _separated(group: int, having: int) -> int:
    """Return how many pairs of a group differ in an attribute."""
    yes = (group & having).bit_count()
    return yes * (group.bit_count() - yes)


@lru_cache(maxsize=1)
def reader() -> Reader:
    """Return the reader of questions about every attribute and guesses of every object."""
    known = attributes().values()
    return Reader(
        names(),
        {attribute.name: (attribute.phrase, attribute.synonym) for attribute in known},
        {attribute.name: attribute.keywords for attribute in known},
    )


def best_question(alive: Collection[str], asked: Sequence[str]) -> str | None:
    """Return the attribute that splits the remaining candidates most evenly; ``None`` when it is time to guess.

    With two candidates left, a guess is as informative as a question, and may win.
    """
    if len(alive) <= 2:
        return None
    left = mask(alive)
    best = max(asked, key=lambda name: _separated(left, masks()[name]))
    return best if _separated(left, masks()[best]) else None


def article(name: str) -> str:
    """Return the object as a guess names it: "a dog", "an apple", "scissors"."""
    if name in UNCOUNTED:
        return name
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
