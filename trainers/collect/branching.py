"""Rollout strategies of a configuration, and which of them work together with which algorithm."""

from __future__ import annotations

from typing import Annotated

import pydantic

from ...rollouts.branching_entropy import EntropyBranching
from ...rollouts.branching_restart import PrefixRestarts
from ...rollouts.branching_vine import StateValues

AnyStrategy = Annotated[EntropyBranching | StateValues | PrefixRestarts, pydantic.Field(discriminator="strategy")]
"""Type of a configuration's ``branching``; its ``strategy`` selects one."""


def refuse_mismatch(
    algorithm: str, wanted: str | None, branching: AnyStrategy | None, *, group_size: int, overlap: bool, program: bool
) -> None:
    """Refuse a configuration whose algorithm and rollout strategy do not work together.

    Args:
        algorithm: name of the algorithm.
        wanted: strategy that the algorithm needs, if any.
        branching: strategy that is set, if any.
        group_size: attempts per task.
        overlap: whether play overlaps with learning.
        program: whether a user's program plays the episodes.

    Raises:
        ValueError: they cannot work together; the message says what to change.
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
        branching.initials(group_size)
    if branching is not None and overlap:
        raise ValueError("overlap.enabled plays whole attempts only: leave it off with branching")
    if branching is not None and program:
        raise ValueError(
            "branching continues from the middle of an episode, and a program cannot be forked there: leave one out"
        )
