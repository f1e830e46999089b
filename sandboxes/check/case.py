"""A case: a number, a name, and the function that tries it on a backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..spec import Limit
from .harness import Harness

Try = Callable[[Harness], Awaitable[str]]
"""Tries a case: returns the evidence that all is well, or raises ``Failed`` or ``NotApplicable``."""


@dataclass(frozen=True, slots=True)
class Case:
    """One requirement on every backend.

    Args:
        number: number by which it is chosen and reported.
        attempt: function that tries it; its name and the first line of its docstring are those of the case.
        needs: limits that the case is about; a backend that declares one absent must refuse the spec instead.
        confines: whether only backends that confine promise it.
        seconds: duration after which it counts as hanging.
    """

    number: int
    attempt: Try
    needs: tuple[Limit, ...] = ()
    confines: bool = False
    seconds: float = 60.0

    @property
    def name(self) -> str:
        """Its name, e.g. ``"fork bomb"``."""
        return str(self.attempt.__name__).replace("_", " ")

    @property
    def about(self) -> str:
        """The case in one sentence."""
        return (self.attempt.__doc__ or "").strip().split("\n")[0].removesuffix(".")


def hostile(number: int, attempt: Try, *needs: Limit, seconds: float = 60.0) -> Case:
    """Make a case that only backends which confine promise to withstand."""
    return Case(number, attempt, needs, confines=True, seconds=seconds)
