"""Verdicts on laws: the part that certification of environments and the check of sandboxes share."""

from __future__ import annotations

import difflib
import traceback
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from .errors import UsageError


class Status(StrEnum):
    """Result of trying one law."""

    PASS = "pass"
    """It held wherever it was tried."""
    FAIL = "fail"
    """It was broken; the verdict says how."""
    SKIP = "skip"
    """It was not tried, or it does not apply; the verdict says why."""


class Failed(Exception):
    """A law is broken; the text says what happened, with values."""


class NotApplicable(Exception):
    """A law has no meaning for what is judged; the text says why."""


def expect(holds: object, otherwise: str) -> None:
    """Check that something holds.

    Raises:
        Failed: it does not; with the text of ``otherwise``.
    """
    if not holds:
        raise Failed(otherwise)


def describe(error: BaseException, where: str = "") -> str:
    """Return an unexpected error in words, with the line that raised it.

    Args:
        error: exception that was raised.
        where: the line, if the caller knows a better one than the innermost.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (at {where or f'{last.filename}:{last.lineno} in {last.name}'})"


T = TypeVar("T")


def choose(wanted: Collection[object], known: Mapping[str, T], what: str, choices: str = "") -> tuple[T, ...]:
    """Return the known things with these names, each once; all of them if none is named.

    Args:
        wanted: names, or numbers.
        known: everything that can be named; several names may have one thing.
        what: noun for messages: ``"law"``.
        choices: description of the choices for messages; all names if omitted.

    Raises:
        UsageError: a name is not known; suggests the nearest one.
    """
    for name in map(str, wanted):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"there is no {what} {name!r}: choose from {choices or ', '.join(known)}{meant}")
    return tuple(dict.fromkeys(known[str(name)] for name in wanted) or dict.fromkeys(known.values()))


class Judged(Protocol):
    """One verdict."""

    @property
    def status(self) -> Status:
        """Whether the law held."""
        ...

    @property
    def seconds(self) -> float:
        """How long it took to try."""
        ...


V = TypeVar("V", bound=Judged)


@dataclass(frozen=True, slots=True)
class Verdicts(Generic[V]):
    """One verdict per law.

    Args:
        verdicts: Verdicts in the order in which the laws were tried.
    """

    verdicts: tuple[V, ...]

    @property
    def failed(self) -> tuple[V, ...]:
        """The verdicts on broken laws."""
        return tuple(verdict for verdict in self.verdicts if verdict.status is Status.FAIL)

    @property
    def passed(self) -> bool:
        """Whether no law was broken."""
        return not self.failed

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return sum(verdict.seconds for verdict in self.verdicts)

    def counts(self) -> Mapping[Status, int]:
        """Return how many laws passed, failed, and were skipped."""
        counted = Counter(verdict.status for verdict in self.verdicts)
        return {status: counted[status] for status in Status}
