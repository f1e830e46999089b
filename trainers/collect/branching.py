"""Which rollout strategies a configuration may name, and what goes together."""

from __future__ import annotations

from typing import Annotated

import pydantic

from ...rollouts.branching_entropy import EntropyBranching
from ...rollouts.branching_vine import StateValues

AnyStrategy = Annotated[EntropyBranching | StateValues, pydantic.Field(discriminator="strategy")]
"""What a configuration's ``branching`` may be; its ``strategy`` says which."""


def refuse_mismatch(
    algorithm: str, wanted: str | None, branching: AnyStrategy | None, *, k: int, overlap: bool, program: bool
) -> None:
    """For a configuration whose algorithm and strategy need not be made for one another.

    Args:
        algorithm: its name.
        wanted: the strategy that it asks for, if it does.
        branching: the one that is set, if one is.
        k: attempts per task.
        overlap: whether play overlaps with learning.
        program: whether somebody's program plays the episodes.

    Raises:
        ValueError: they cannot work together; says what to change.
    """
    played = branching.strategy if branching is not None else None
    if wanted is not None and played != wanted:
        raise ValueError(f"{algorithm} gives credit to what branching.strategy = {wanted!r} plays, not {played!r}")
    if isinstance(branching, StateValues) and wanted != played:
        raise ValueError(
            f"branching.strategy = 'vine' plays {branching.rollouts} rollouts from each state to learn its value, and "
            f"{algorithm} makes no use of values: take vine-ppo, or leave branching out"
        )
    if isinstance(branching, EntropyBranching):
        branching.initials(k)
    if branching is not None and overlap:
        raise ValueError("overlap.enabled plays whole attempts only: leave it off with branching")
    if branching is not None and program:
        raise ValueError(
            "branching continues from the middle of an episode, and a program cannot be forked there: leave one out"
        )
