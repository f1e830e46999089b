"""``Meter``: the work of a learner's updates, counted where it happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch

from .rows import Layout, Rows

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """Work of some updates.

    Args:
        tokens: tokens read with a gradient, context included, padding not.
        computed: the same with padding.
        sampled: tokens among them whose log-probability was computed.
        squares: sum over rows of their squared length, to which the work of attention is proportional.
        seconds: seconds in updates.
    """

    tokens: int = 0
    computed: int = 0
    sampled: int = 0
    squares: int = 0
    seconds: float = 0.0


class Meter:
    """Counts the work of updates between two calls of ``take``; some tens of microseconds per micro-batch."""

    def __init__(self) -> None:
        self._tokens = self._computed = self._sampled = self._squares = 0
        self._seconds = 0.0

    def read(self, rows: Rows, layout: Layout = "padded") -> None:
        """Count a forward pass over rows, unless no gradient is recorded."""
        if not torch.is_grad_enabled() or not len(rows):
            return
        sizes = torch.unique_consecutive(rows.row, return_counts=True)[1]
        tokens = len(rows)
        self._tokens += tokens
        self._computed += tokens if layout == "packed" else int(sizes.max()) * len(sizes)
        self._sampled += int(rows.mask.sum())
        self._squares += int((sizes * sizes).sum())

    def spent(self, seconds: float) -> None:
        """Count the seconds of an update."""
        self._seconds += seconds

    def take(self) -> Work:
        """Return the work since the last call."""
        found = Work(self._tokens, self._computed, self._sampled, self._squares, self._seconds)
        self.__init__()  # type: ignore[misc]
        return found


class Metered(Protocol):
    """An object whose updates are counted."""

    scorer: Any
    """The ``Scorer`` whose meter counts."""


M = TypeVar("M", bound=Metered)


def metered(update: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Count the seconds of a method that makes one update; it waits for the device before it returns."""

    @wraps(update)
    def counted(self: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        began = time.perf_counter()
        try:
            return update(self, *args, **kwargs)
        finally:
            self.scorer.meter.spent(time.perf_counter() - began)

    return counted
