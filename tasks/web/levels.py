"""What the five levels mean: how sites look, and what is between the agent and what it looks for."""

from __future__ import annotations

from dataclasses import dataclass

from ..rows.template import Kind


@dataclass(frozen=True)
class Level:
    """One level.

    Args:
        plain: every site looks the same in every episode.
        login: nobody is logged in when an episode begins.
        every_site: whether all sites are told, or only those that the task needs.
        per_page: rows on a page of a listing.
        turns: that an agent has.
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
"""Turns that any episode has at most."""


def turns_of(level: int, kind: Kind) -> int:
    """How many turns an agent has; tasks of two parts, or of several sites, need twice as many.

    Args:
        level: 1 to 5.
        kind: of the task.
    """
    return LEVELS[level].turns * (2 if kind in ("composed", "cross") else 1)
