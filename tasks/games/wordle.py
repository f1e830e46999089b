"""Wordle: find a secret word in six guesses, told after each which letters are right.

Rewards and limits are LMRL-Gym's (arXiv 2311.18232): −1 for each guess that is not the secret, 0 for the one that
is, −1 for a text that is no word of the list (it costs a try, too), six tries. Its word list cannot be copied; ours
comes from SCOWL (``data/words.README.md``). Unlike LMRL-Gym's, the feedback is right for repeated letters.

The words are the instances: each secret belongs to one split, by a hash of the word, and ``test_entity`` holds the
words whose initial begins no training word.

A level is its list: the more words, the more there is to find out. Measured with the oracle (``best_guess``) over
every secret of every level; random guesses solve 6 / words.

===== ========================== ===== ======== ========== =========
level kind                       words secrets  turns mean turns max
===== ========================== ===== ======== ========== =========
1     3 of 13 letters, common    116   112      3.31       5
2     3 letters, common          275   259      4.26       6
3     4 letters, common          925   919      3.77       6
4     5 letters, common          1,365 1,357    3.25       5
5     5 letters                  3,449 3,439    3.64       6
===== ========================== ===== ======== ========== =========
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
"""No secret of another split than ``test_entity`` and ``challenge`` begins with one of these."""
UNLUCKY = frozenset({"fazes", "foxed", "jet", "kid", "lag", "lid", "lit", "van", "vet", "way"})
"""Words that may be guessed but are no secrets: the oracle would need a seventh guess for them."""
DATA = Path(__file__).parent / "data" / "words.txt"

Letters = npt.NDArray[np.uint8]
Guess = tuple[str, str]
"""A guess and its feedback."""


@dataclass(frozen=True, slots=True)
class WordleLevel:
    """Which words a level plays with.

    Args:
        length: letters per word.
        size: the largest SCOWL size: 10 holds the most common words, 35 those that most dictionaries have.
        alphabet: only words of these letters; empty for all.
        opener: the oracle's first guess, computed once with ``best_guess`` over the whole list.
    """

    length: int
    size: int
    alphabet: str
    opener: str


@dataclass(frozen=True, slots=True)
class Wording:
    """How a template speaks.

    Args:
        rules: what the agent reads first; formatted with ``length`` and ``tries``.
        letter: how a letter and its mark are put; formatted with ``letter`` and ``mark``.
        marks: the names of ``GREEN``, ``YELLOW`` and ``GREY``.
        between: what stands between letters.
    """

    rules: str
    letter: str
    marks: Mapping[str, str]
    between: str

    def describe(self, guess: str, marks: str) -> str:
        """An answer in words, e.g. ``"p gray, a green, t yellow"``."""
        return self.between.join(
            self.letter.format(letter=letter, mark=self.marks[mark]) for letter, mark in zip(guess, marks, strict=True)
        )


OPENING = "Begin. {tries} tries left."
"""What the agent reads after the rules."""
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
        secret: the word to find.
        level: which list it is from.
        template: how feedback is worded.
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
    """The words that may be guessed at a level, the commonest first; every secret is one of them."""
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
    """The secrets of a split."""
    return tuple(word for word in vocabulary(level) if split in splits_of(word))


def splits_of(word: str) -> tuple[Split, ...]:
    """Where a word may be the secret: either only while learning, or only in a test.

    Nowhere if the oracle cannot find it in time, or if what the agent reads first happens to spell it (``"let"`` in
    "letters").
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
    """One mark per letter: ``g`` right, ``y`` elsewhere in the secret, ``-`` not (or not once more) in it.

    Each letter of the secret is spent once: first on the greens, then on the yellows from left to right.

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
    """The words that would have answered every guess as it was answered."""
    return [word for word in words if all(feedback(guess, word) == marks for guess, marks in guesses)]


@lru_cache(maxsize=4096)
def best_guess(level: int, guesses: tuple[Guess, ...], tries: int) -> str:
    """The guess that tells most apart.

    It splits the words still possible into the largest number of answers; among equals, the most evenly; among
    equals, one that may itself be the secret; among equals, the commonest. All in integers, so that every machine
    chooses alike.

    Args:
        level: which list.
        guesses: what was guessed and answered so far.
        tries: how many guesses are left; the last one must be a word that is possible.
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
    """How often each answer would come, shape [guesses, 3 ** length]."""
    kinds = 3 ** guesses.shape[1]
    counts = np.empty((len(guesses), kinds), dtype=np.int64)
    for first in range(0, len(guesses), 256):  # in blocks that stay in the cache
        codes = _codes(guesses[first : first + 256], possible).astype(np.int64)
        codes += kinds * np.arange(len(codes))[:, None]
        counts[first : first + 256] = np.bincount(codes.ravel(), minlength=kinds * len(codes)).reshape(-1, kinds)
    return counts


def letters(words: Sequence[str]) -> Letters:
    """Words of one length as an array of character codes, shape [words, length]."""
    return np.frombuffer("".join(words).encode("ascii"), dtype=np.uint8).reshape(len(words), -1)


def _codes(guesses: Letters, secrets: Letters) -> npt.NDArray[np.uint8]:
    """``feedback`` of every guess for every secret as a number in base 3, shape [guesses, secrets]."""
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
