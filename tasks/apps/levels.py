"""The five levels: strictness of the apps, and the number of apps shown that a task does not need."""

from __future__ import annotations

from dataclasses import dataclass

from ..rng import Rng
from .simulators.situation import Rules


@dataclass(frozen=True)
class Level:
    """One level.

    Args:
        rules: rules of the world.
        strangers: number of apps shown that the task does not need; ``None`` for all.
        turns: limit on the number of turns.
    """

    rules: Rules
    strangers: int | None
    turns: int


LEVELS: dict[int, Level] = {
    1: Level(Rules(login=False, per_page=25), 0, 15),
    2: Level(Rules(login=True, per_page=20), 1, 20),
    3: Level(Rules(login=True, per_page=10), None, 30),
    4: Level(Rules(login=True, session_calls=12, per_page=6), None, 40),
    5: Level(Rules(login=True, session_calls=12, calls_per_minute=8, per_page=5), None, 60),
}
ALWAYS = ("account",)
"""Apps that are shown where a login is needed."""


def shown(level: int, needed: tuple[str, ...], there: tuple[str, ...], rng: Rng) -> tuple[str, ...]:
    """The apps that an agent sees, in the order of ``there``.

    Args:
        level: level of the task.
        needed: names of the apps that the task needs.
        there: names of all apps that may be shown.
        rng: random numbers that choose the unneeded apps.
    """
    asked = LEVELS[level]
    others = [app for app in there if app not in needed and app not in ALWAYS]
    strange = others if asked.strangers is None else rng.sample(others, min(asked.strangers, len(others)))
    always = ALWAYS if asked.rules.login else ()
    return tuple(app for app in there if app in needed or app in strange or app in always)
