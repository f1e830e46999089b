"""The skills that exercises train and probe, by name: each exercise is a pure function of its seed and index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ...errors import TaskError
from ..rng import Rng
from .exercise import Exercise
from .names import Names
from .reading import hints, lookup, marking, narrowing
from .spelling import comparing, copying, counting, place, spelling

SKILLS: Mapping[str, Callable[[Rng, Names], Exercise]] = MappingProxyType(
    {
        "copy": copying,
        "spell": spelling,
        "letter": place,
        "count": counting,
        "compare": comparing,
        "lookup": lookup,
        "mark": marking,
        "hints": hints,
        "narrow": narrowing,
    }
)
"""Every skill, with the function that draws an exercise."""


def exercise(skill: str, index: int, *, seed: int = 0, held_out: bool = False) -> Exercise:
    """Return one exercise of a skill.

    Args:
        skill: key of ``SKILLS``.
        index: number of the exercise.
        seed: seed of all exercises.
        held_out: whether its names are those that training never shows.

    Raises:
        TaskError: there is no such skill.
    """
    if skill not in SKILLS:
        raise TaskError(f"there is no skill {skill!r}; choose from {', '.join(SKILLS)}")
    return SKILLS[skill](Rng("exercise", skill, held_out, seed, index), Names(held_out))
