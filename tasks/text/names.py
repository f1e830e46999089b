"""Invented names and numbers for exercises; a tenth of them never occurs in training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..games.wordle import LEVELS, secrets, vocabulary
from ..rng import Rng, unit_hash
from ..spec import Split

HELD_OUT = 0.1
"""Share of invented names, and of numbers, that only held-out exercises contain."""
CONSONANTS = ("b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "br", "st", "tr")
VOWELS = ("a", "e", "i", "o", "u")
ENDINGS = ("", "", "n", "r", "s", "l", "k", "th")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def held_out(name: str) -> bool:
    """Whether an invented name or a number belongs to the held-out exercises."""
    return unit_hash("text", name) < HELD_OUT


@lru_cache(maxsize=1)
def game_words() -> frozenset[str]:
    """Return the words of every Wordle list; no invented name may equal one, since tests use some as secrets."""
    return frozenset(word for level in LEVELS for word in vocabulary(level))


@dataclass(frozen=True, slots=True)
class Names:
    """Draws names that belong to training, or names that training never shows.

    Args:
        held_out: whether the names are those of held-out exercises.
    """

    held_out: bool = False

    def _allows(self, name: str) -> bool:
        return held_out(name) == self.held_out and name not in game_words()

    def _draw(self, rng: Rng, taken: set[str], *kinds: str) -> str:
        while True:
            name = _INVENT[rng.pick(kinds)](rng)
            if self._allows(name) and name not in taken:
                taken.add(name)
                return name

    def names(self, rng: Rng, count: int) -> list[str]:
        """Return different names that can be pronounced, such as ``"stavel"``."""
        taken: set[str] = set()
        return [self._draw(rng, taken, "spoken") for _ in range(count)]

    def strings(self, rng: Rng, count: int) -> list[str]:
        """Return different strings: names, random characters, or characters and digits."""
        taken: set[str] = set()
        return [self._draw(rng, taken, "spoken", "letters", "code") for _ in range(count)]

    def numbers(self, rng: Rng, count: int) -> list[int]:
        """Return different numbers of one to four digits."""
        taken: set[str] = set()
        return [int(self._draw(rng, taken, "number")) for _ in range(count)]

    def words(self, rng: Rng, count: int) -> list[str]:
        """Return different words of one length: secrets of Wordle in one split, or invented words.

        Training draws secrets of the ``train`` split; held-out exercises draw secrets of ``dev``.
        """
        length = rng.randint(3, 5)
        known = [level for level, rule in LEVELS.items() if rule.length == length]
        pool = secrets(rng.pick(known), Split.DEV if self.held_out else Split.TRAIN)
        if rng.random() < 0.5 and len(pool) >= count:
            return rng.sample(pool, count)
        found: list[str] = []
        while len(found) < count:
            word = "".join(rng.pick(CONSONANTS[:17] if (at + count) % 2 else VOWELS) for at in range(length))
            if self._allows(word) and word not in found:
                found.append(word)
        return found


def _spoken(rng: Rng) -> str:
    syllables = (rng.pick(CONSONANTS) + rng.pick(VOWELS) for _ in range(rng.randint(1, 3)))
    return "".join(syllables) + rng.pick(CONSONANTS) + rng.pick(VOWELS) + rng.pick(ENDINGS)


def _letters(rng: Rng) -> str:
    return "".join(rng.pick(LETTERS) for _ in range(rng.randint(3, 10)))


def _code(rng: Rng) -> str:
    return "".join(rng.pick(f"{LETTERS}0123456789") for _ in range(rng.randint(4, 8)))


def _number(rng: Rng) -> str:
    return str(rng.randrange(10 ** rng.randint(1, 4)))


_INVENT = {"spoken": _spoken, "letters": _letters, "code": _code, "number": _number}
