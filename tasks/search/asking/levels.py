"""What the levels of the search family mean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """How hard a task is.

    Args:
        pages: of its wiki.
        extra: by how many facts what is asked about is described, instead of being named.
    """

    pages: int
    extra: int


LEVELS = {1: Level(100, 0), 2: Level(200, 1), 3: Level(300, 2), 4: Level(500, 3), 5: Level(800, 4)}
"""By number. ``benchmarks/search_levels.py`` measures them."""
