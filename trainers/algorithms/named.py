"""The algorithms and modulators that ``trainers/on_policy.py`` knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from ..registry import one_of, rules
from .algorithm import Algorithm
from .duration import DurationWeighting
from .empg import EMPG

ALGORITHMS: Mapping[str, type[Algorithm]] = rules("on_policy")
"""On-policy algorithms by name."""

if TYPE_CHECKING:
    AnyAlgorithm = Algorithm
else:
    AnyAlgorithm = one_of(ALGORITHMS)
"""Types of a configuration's ``algorithm``; its ``name`` selects one."""

AnyModulator = Annotated[EMPG | DurationWeighting, pydantic.Field(discriminator="name")]
"""Types of the entries of a configuration's ``modulators``."""


def algorithm_named(given: Any) -> type[Algorithm] | None:
    """Return the class that a configuration's ``algorithm`` means, before validation; ``None`` if it means none."""
    if isinstance(given, Algorithm):
        return type(given)
    name = given.get("name") if isinstance(given, Mapping) else None
    return ALGORITHMS.get(name) if isinstance(name, str) else None
