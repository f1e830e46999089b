"""Wordle: find a secret word in six guesses, each answered with marks for its characters.

Rewards and limits are LMRL-Gym's (arXiv 2311.18232): six tries, −1 for each guess that is not the secret, and 0 for the
secret. A text that is not a word of the list costs −1 and a try. LMRL-Gym's word list cannot be copied; Turnwise's
comes from SCOWL (``data/words.README.md``). Unlike LMRL-Gym's, the feedback is correct for repeated characters.

The words are the instances: a hash of the word assigns each secret to one split, and ``test_entity`` has the words with
initials that no training word has.

A level determines the list: the more words, the more there is to find out. Measured with the oracle (``best_guess``)
over every secret of every level; random guesses solve 6 / words.

| level | kind                       | words | secrets | turns mean | turns max |
|------:|----------------------------|------:|--------:|-----------:|----------:|
|     1 | 3 of 13 characters, common |   116 |     112 |       3.31 |         5 |
|     2 | 3 characters, common       |   275 |     259 |       4.26 |         6 |
|     3 | 4 characters, common       |   925 |     919 |       3.77 |         6 |
|     4 | 5 characters, common       | 1,365 |   1,357 |       3.25 |         5 |
|     5 | 5 characters               | 3,449 |   3,439 |       3.64 |         6 |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ...errors import TaskError
from ..family import TaskFamily
from ..rng import Rng, unit_hash
from ..spec import Split, TaskSpec

TRIES = 6
GREEN, YELLOW, GREY = "g", "y", "-"
HELD_INITIALS = frozenset("bcgw")
"""Initials of secrets that only ``test_entity`` and ``challenge`` use."""
UNLUCKY = frozenset({"fazes", "foxed", "jet", "kid", "lag", "lid", "lit", "van", "vet", "way"})
"""Words that may be guessed but are never secrets: the oracle would need a seventh guess for them."""
DATA = Path(__file__).parent / "data" / "words.txt"

Letters = npt.NDArray[np.uint8]
Guess = tuple[str, str]
"""A guess and its feedback."""


@dataclass(frozen=True, slots=True)
class WordleLevel:
    """The words of a level.

    Args:
        length: number of characters per word.
        size: largest SCOWL size: 10 has the most common words, 35 those that most dictionaries have.
        alphabet: characters to restrict the words to; empty for all.
        opener: the oracle's first guess, computed once with ``best_guess`` over the whole list.
    """

    length: int
    size: int
    alphabet: str
    opener: str


@dataclass(frozen=True, slots=True)
class Wording:
    """The wording of a template.

    Args:
        rules: first text that the agent reads, with slots ``length`` and ``tries``.
        letter: format of a character and its mark, with slots ``letter`` and ``mark``.
        marks: names of ``GREEN``, ``YELLOW`` and ``GREY``.
        between: separator between characters.
    """

    rules: str
    letter: str
    marks: Mapping[str, str]
    between: str

    def describe(self, guess: str, marks: str) -> str:
        """Return an answer in words, e.g. ``"p gray, a green, t yellow"``."""
        return self.between.join(
            self.letter.format(letter=letter, mark=self.marks[mark]) for letter, mark in zip(guess, marks, strict=True)
        )


OPENING = "Begin. {tries} tries left."
"""Text that follows the rules."""
WORDINGS: Mapping[str, Wording] = MappingProxyType(
    {
        "colours": Wording(
            "Guess a secret word of {length} letters in {tries} tries. "
            "Green: right place. Yellow: in it elsewhere. Gray: not in it.",
            "{letter} {mark}",
            {GREEN: "green", YELLOW: "yellow", GREY: "gray"},
            ", ",
        ),
        "marks": Wording(
            "Guess a secret word of {length} letters in {tries} tries. "
            "+ means right place, ? in it elsewhere, - not in it.",
            "{letter}{mark}",
            {GREEN: "+", YELLOW: "?", GREY: "-"},
            " ",
        ),
    }
)
LEVELS: Mapping[int, WordleLevel] = MappingProxyType(
    {
        1: WordleLevel(3, 20, "abdeginoprsty", "pat"),
        2: WordleLevel(3, 20, "", "pat"),
        3: WordleLevel(4, 20, "", "tens"),
        4: WordleLevel(5, 20, "", "tears"),
        5: WordleLevel(5, 35, "", "tries"),
    }
)


@dataclass(frozen=True, slots=True)
class Wordle:
    """One game.

    Args:
        secret: word to find.
        level: level of the word list.
        template: wording of the feedback.
    """

    secret: str
    level: int
    template: str


class WordleFamily(TaskFamily[Wordle]):
    """Secrets of a level's list; a seed draws one of its split's words."""

    name = "wordle"
    levels = tuple(LEVELS)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        return ("marks",) if split in (Split.TEST_TEMPLATE, Split.CHALLENGE) else ("colours",)

    def build(self, spec: TaskSpec, rng: Rng) -> Wordle:
        return Wordle(rng.pick(secrets(spec.level, spec.split)), spec.level, spec.template)


WORDLES = WordleFamily()


@lru_cache(maxsize=len(LEVELS))
def vocabulary(level: int) -> tuple[str, ...]:
    """Return the words that may be guessed at a level, the most common first; every secret is one of them."""
    rule = LEVELS[level]
    rows = (line.split() for line in DATA.read_text(encoding="ascii").splitlines())
    return tuple(
        word
        for size, word in rows
        if len(word) == rule.length
        and int(size) <= rule.size
        and (not rule.alphabet or set(word) <= set(rule.alphabet))
    )


@lru_cache(maxsize=len(LEVELS) * len(Split))
def secrets(level: int, split: Split) -> tuple[str, ...]:
    """Return the secrets of a split."""
    return tuple(word for word in vocabulary(level) if split in splits_of(word))


def splits_of(word: str) -> tuple[Split, ...]:
    """Return the splits in which a word may be the secret: those for learning, or those for tests.

    A word is in no split if the oracle cannot find it in time, or if the text that the agent reads first contains it
    (such as ``"let"``).
    """
    if word in UNLUCKY or any(word in f"{text.rules} {OPENING}".lower() for text in WORDINGS.values()):
        return ()
    if word[0] in HELD_INITIALS:
        return (Split.TEST_ENTITY, Split.CHALLENGE)
    share = unit_hash("wordle", word)
    if share < 0.7:
        return (Split.TRAIN,)
    return (Split.DEV,) if share < 0.8 else (Split.TEST_IID, Split.TEST_TEMPLATE)


def feedback(guess: str, secret: str) -> str:
    """Return one mark per character: ``g`` right, ``y`` elsewhere in the secret, ``-`` not (or not once more) in it.

    Each character of the secret is used once: first for the greens, then for the yellows from left to right.

    Raises:
        TaskError: the words differ in length.
    """
    if len(guess) != len(secret):
        raise TaskError(f"guess {guess!r} and secret {secret!r} differ in length")
    left = Counter(theirs for ours, theirs in zip(guess, secret, strict=True) if ours != theirs)
    marks = []
    for ours, theirs in zip(guess, secret, strict=True):
        if ours == theirs:
            marks.append(GREEN)
        elif left[ours] > 0:
            left[ours] -= 1
            marks.append(YELLOW)
        else:
            marks.append(GREY)
    return "".join(marks)


def consistent(words: Sequence[str], guesses: Sequence[Guess]) -> list[str]:
    """Return the words that would have given the same answers to all guesses."""
    return [word for word in words if all(feedback(guess, word) == marks for guess, marks in guesses)]


@lru_cache(maxsize=4096)
def best_guess(level: int, guesses: tuple[Guess, ...], tries: int) -> str:
    """Return the guess that separates the possible words best.

    It splits the possible words into the largest number of answers; among equals, the most evenly; among equals, it may
    itself be the secret; among equals, it is the most common. All computations use integers, so that every machine
    makes the same choice.

    Args:
        level: level of the word list.
        guesses: guesses so far, with their feedback.
        tries: number of guesses left; the last one must be a possible word.
    """
    if not guesses and LEVELS[level].opener:
        return LEVELS[level].opener
    words = vocabulary(level)
    possible = consistent(words, guesses)
    if len(possible) <= 2 or tries <= 1:
        return possible[0]
    counts = answers(letters(words), letters(possible))
    likely = np.isin(np.array(words), np.array(possible))
    order = np.lexsort((~likely, (counts**2).sum(axis=1), -(counts > 0).sum(axis=1)))
    return words[int(order[0])]


def answers(guesses: Letters, possible: Letters) -> npt.NDArray[np.int64]:
    """Return how often each answer would occur, shape [guesses, 3 ** length]."""
    kinds = 3 ** guesses.shape[1]
    counts = np.empty((len(guesses), kinds), dtype=np.int64)
    for first in range(0, len(guesses), 256):  # in blocks that fit into the cache
        codes = _codes(guesses[first : first + 256], possible).astype(np.int64)
        codes += kinds * np.arange(len(codes))[:, None]
        counts[first : first + 256] = np.bincount(codes.ravel(), minlength=kinds * len(codes)).reshape(-1, kinds)
    return counts


def letters(words: Sequence[str]) -> Letters:
    """Return words of one length as an array of character codes, shape [words, length]."""
    return np.frombuffer("".join(words).encode("ascii"), dtype=np.uint8).reshape(len(words), -1)


def _codes(guesses: Letters, secrets: Letters) -> npt.NDArray[np.uint8]:
    """Return ``feedback`` of every guess for every secret as a number in base 3, shape [guesses, secrets]."""
    length = guesses.shape[1]
    green = [guesses[:, None, i] == secrets[None, :, i] for i in range(length)]
    codes = np.zeros((len(guesses), len(secrets)), dtype=np.uint8)
    for i in range(length):
        mine = guesses[:, i, None]
        there = np.zeros(codes.shape, dtype=np.int8)
        for j in range(length):
            there += (mine == secrets[None, :, j]) & ~green[j]
            if j < i:
                there -= (guesses[:, j, None] == mine) & ~green[j]
        codes = codes * 3 + np.where(green[i], 2, there > 0).astype(np.uint8)
    return codes
