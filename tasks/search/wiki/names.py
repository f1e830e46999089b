"""Invented names: every number has its own, and no split with held-out names shares one with another."""

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
    """What names and prose are made of, by part of ``words.toml`` and kind."""
    told: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return {part: {kind: tuple(some) for kind, some in kinds.items()} for part, kinds in told.items()}


class Names:
    """Gives out names, none twice.

    Args:
        split: some have names of their own.
        number: of the wiki; each begins elsewhere among the names.
        block: those of two blocks of one wiki have no name in common.
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
        """Leave out some words, which another gives out."""
        self._next += n

    def root(self) -> str:
        """A word that was not given out before; of four syllables."""
        index = (self._start + self._next * self._step) % (self._few * len(self._middles))
        self._next += 1
        index, end = divmod(index, len(self._ends))
        index, second = divmod(index, len(self._middles))
        onset, first = divmod(index, len(self._middles))
        return self._onsets[onset] + self._middles[first] + self._middles[second] + self._ends[end]

    def first(self) -> str:
        """A first name, which many may have."""
        return self._rng.pick(self._onsets) + self._rng.pick(self._shorts)

    def name(self, kind: str, root: str) -> str:
        """A name of an entity, made of a word that no other kind uses."""
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
    """A start and a step that visits every number below ``size``."""
    step = rng.randrange(size // 3, size // 2)
    while gcd(step, size) != 1:
        step += 1
    return rng.randrange(size), step
