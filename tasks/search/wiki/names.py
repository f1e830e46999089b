"""Invented names: each wiki has its own, and splits with held-out names share none with the others."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from math import gcd
from pathlib import Path
from typing import Any

from ...rng import Rng
from ...spec import Split

UNSEEN = (Split.TEST_ENTITY, Split.CHALLENGE)
"""Splits whose names no other split uses."""
TAILS = {
    "town": ("",),
    "river": ("River {}",),
    "instrument": ("{} lyre", "{} fiddle", "{} flute", "{} harp", "{} zither", "{} horn"),
    "company": ("{} Works", "{} Brothers", "{} Press", "{} Stores", "{} Yards"),
    "festival": ("Feast of {}", "{} Fair", "{} Revels", "Days of {}"),
    "building": ("{} Hall", "{} House", "{} Tower", "{} Rooms"),
}


@lru_cache(maxsize=1)
def words() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the parts of names and prose, by part of ``words.toml`` and kind."""
    tables: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return {part: {kind: tuple(some) for kind, some in kinds.items()} for part, kinds in tables.items()}


class Names:
    """Generates names without repetition.

    Args:
        split: split of the wiki; some splits have names of their own.
        number: number of the wiki, which determines the first name.
        block: number of the block; two blocks of one wiki share no name.
    """

    def __init__(self, split: Split, number: int, block: int = 0) -> None:
        always = words()["always"]
        self._onsets = words()["unseen" if split in UNSEEN else "seen"]["onset"]
        self._middles, self._ends, self._shorts = always["middle"], always["end"], always["short"]
        self._rng = Rng("wiki names", str(split), number, block)
        self._few = len(self._onsets) * len(self._middles) * len(self._ends)
        self._start, self._step = _walk(Rng("wiki names", str(split), number), self._few * len(self._middles))
        self._next = block * BLOCK

    def skip(self, n: int) -> None:
        """Skip some words, which another block uses."""
        self._next += n

    def root(self) -> str:
        """Return an unused word of four syllables."""
        index = (self._start + self._next * self._step) % (self._few * len(self._middles))
        self._next += 1
        index, end = divmod(index, len(self._ends))
        index, second = divmod(index, len(self._middles))
        onset, first = divmod(index, len(self._middles))
        return self._onsets[onset] + self._middles[first] + self._middles[second] + self._ends[end]

    def first(self) -> str:
        """Return a first name, which several people may have."""
        return self._rng.pick(self._onsets) + self._rng.pick(self._shorts)

    def name(self, kind: str, root: str) -> str:
        """Return a name for an entity, formed from a word that no other kind uses."""
        rng, always = self._rng, words()["always"]
        if kind == "person":
            return f"{self.first()} {root}"
        if kind == "guild":
            return f"{root} Guild of {rng.pick(always['craft'])}"
        if kind == "ship":
            return f"{rng.pick(always['adjective'])} {root}"
        if kind == "book":
            return f"The {rng.pick(always['noun'])} of {root}"
        return (rng.pick(TAILS[kind]) or "{}").format(root)


BLOCK = 3000
"""Words that one block of a wiki may use."""


def _walk(rng: Rng, size: int) -> tuple[int, int]:
    """Return a start and a step that visit every number below ``size``."""
    step = rng.randrange(size // 3, size // 2)
    while gcd(step, size) != 1:
        step += 1
    return rng.randrange(size), step
