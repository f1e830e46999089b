"""The five levels: the look of sites, and the obstacles between the agent and what it looks for."""

from __future__ import annotations

from dataclasses import dataclass

from ..rows.template import Kind


@dataclass(frozen=True)
class Level:
    """Parameters of a level.

    Args:
        plain: whether every site looks the same in every episode.
        login: whether the agent has to log in.
        every_site: whether the prompt lists all sites, or only those that the task needs.
        per_page: rows on one page of a listing.
        turns: limit of actions per episode.
    """

    plain: bool
    login: bool
    every_site: bool
    per_page: int
    turns: int


LEVELS: dict[int, Level] = {
    1: Level(plain=True, login=False, every_site=False, per_page=30, turns=30),
    2: Level(plain=False, login=False, every_site=False, per_page=20, turns=35),
    3: Level(plain=False, login=True, every_site=False, per_page=10, turns=40),
    4: Level(plain=False, login=True, every_site=True, per_page=6, turns=60),
    5: Level(plain=False, login=True, every_site=True, per_page=4, turns=80),
}
LONGEST = 2 * max(level.turns for level in LEVELS.values())
"""The most turns of any episode."""


def turns_of(level: int, kind: Kind) -> int:
    """Return the turn limit; tasks of two parts, or of several sites, get twice as many turns.

    Args:
        level: level, 1 to 5.
        kind: kind of the task.
    """
    return LEVELS[level].turns * (2 if kind in ("composed", "cross") else 1)
