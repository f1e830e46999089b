"""Levels of the search family."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """Difficulty of a level.

    Args:
        pages: number of pages of a wiki.
        extra: number of facts that describe an entity in the question, instead of its name.
    """

    pages: int
    extra: int


LEVELS = {1: Level(100, 0), 2: Level(200, 1), 3: Level(300, 2), 4: Level(500, 3), 5: Level(800, 4)}
"""Levels by number; ``benchmarks/search_levels.py`` measures them."""
