"""Findings of an audit, and checks that it could not make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

SHOWN = 5
"""Maximum number of examples in the text of one finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found.

    Args:
        name: short name, e.g. ``"duplicated"``.
        text: finding with its numbers and first examples.
        fault: whether results are wrong because of it; otherwise, a reader should know it.
        count: number of episodes, or of what the text counts.
        examples: names of all that were found; empty where there are no names.
        meaning: consequence for the results, and what to do.
    """

    name: str
    text: str
    fault: bool
    count: int = 0
    examples: tuple[str, ...] = ()
    meaning: str = ""

    @classmethod
    def of(
        cls, name: str, text: str, examples: Sequence[str], fault: bool, meaning: str, count: int | None = None
    ) -> Self:
        """Return a finding whose text ends with its first examples, and which counts them by default."""
        more = f" and {len(examples) - SHOWN} more" if len(examples) > SHOWN else ""
        shown = f": {', '.join(examples[:SHOWN])}{more}" if examples else ""
        return cls(name, text + shown, fault, len(examples) if count is None else count, tuple(examples), meaning)


@dataclass(frozen=True, slots=True)
class Unknown:
    """One check that could not be made.

    Args:
        name: name of the findings that it would have.
        why: data that the log does not record, or has too little of.
        recorded: whether the log records it, but too little of it.
    """

    name: str
    why: str
    recorded: bool = False
