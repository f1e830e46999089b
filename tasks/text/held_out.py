"""Entities that one family holds out and another family of a single split would show."""

from __future__ import annotations

from ..games.twenty_questions import PUBLISHED, TEN_OBJECTS, pool
from ..spec import Split, TaskSpec

SINGLE_SPLIT = {family.name: family for family in (PUBLISHED, TEN_OBJECTS)}
"""Families with one split, whose objects are also those of a family with held-out objects."""


def hides_held_out_entity(spec: TaskSpec) -> bool:
    """Whether the secret of a task is an object that the levels of Twenty Questions hold out for tests.

    Args:
        spec: task of any family.
    """
    family = SINGLE_SPLIT.get(spec.family)
    return family is not None and family.generate(spec).secret in pool(Split.TEST_ENTITY)
