"""The expectations of a task: required changes of rows, permitted changes, and the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

from .database import Change, Kind
from .pairing import paired

FREE = frozenset({"id", "created_at", "updated_at", "sent_at"})
"""Columns that are not compared, since they depend on the time of a change."""
SLACK = 0.005
"""Permitted distance of a number from the right one: less than a cent."""
LARGEST = 10**15
"""Bound on the absolute value of a number; larger ones match nothing."""
Reason = Literal["not_found", "not_allowed", "not_possible", "conflict"]
"""Why a task cannot or must not be done. In order: something that it names does not exist; the user or a rule forbids
it; a limit (of money, of stock) prevents it; the request contradicts itself or existing data."""


class Matcher(Protocol):
    """A set of values that are accepted as equal."""

    def matches(self, value: Any) -> bool:
        """Return whether the value is accepted."""
        ...


@dataclass(frozen=True)
class Number:
    """A number, or its decimal text."""

    value: float

    def matches(self, value: Any) -> bool:
        """Return whether the value is this number, up to ``SLACK``."""
        read = _number(value)
        return read is not None and abs(read - self.value) <= SLACK


@dataclass(frozen=True)
class Text:
    """A text up to case, spaces and the punctuation around it.

    Args:
        value: the text.
        aliases: other accepted texts.
    """

    value: str
    aliases: tuple[str, ...] = ()

    def matches(self, value: Any) -> bool:
        """Return whether the value is this text or one of its aliases."""
        said = str(value) if isinstance(value, str) or _number(value) is not None else None
        return said is not None and plain(said) in {plain(text) for text in (self.value, *self.aliases)}


BETWEEN = (r"[,;\n]", r",\s+and\s+|[,;\n]|\s+and\s+")
"""Patterns for what separates the values of a list: "and" may be part of a value, or separate values."""


@dataclass(frozen=True)
class Listing:
    """Several values in any order, each once: a list, or text separated by commas, semicolons, newlines or "and"."""

    values: tuple[str | float, ...]

    def matches(self, value: Any) -> bool:
        """Return whether the value has the same elements and no others."""
        if isinstance(value, str):
            return any(self._are([part for part in re.split(way, value) if part.strip()]) for way in BETWEEN)
        return isinstance(value, Sequence) and not isinstance(value, bytes) and self._are(value)

    def _are(self, parts: Sequence[Any]) -> bool:
        if len(parts) != len(self.values):
            return False
        wanted = [Number(one) if isinstance(one, float | int) else Text(one) for one in self.values]
        return len(paired(wanted, parts, lambda one, part: one.matches(part))) == len(wanted)


@dataclass(frozen=True)
class Containing:
    """A text that contains others as whole words, up to case and spaces."""

    parts: tuple[str, ...]

    def matches(self, value: Any) -> bool:
        """Return whether the text contains all of them."""
        return isinstance(value, str) and all(stands_in(part, value) for part in self.parts)


DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
LONGEST_EVIDENCE = 300
"""Limit on the length of evidence, in characters."""


@dataclass(frozen=True)
class Evidence:
    """Facts that a short text contains without their rivals: an agent that lists every possibility has not looked.

    Args:
        facts: texts that must appear.
        rivals: texts that must not appear, such as other names. Any date that is not among the facts is a rival.
    """

    facts: tuple[str, ...]
    rivals: tuple[str, ...] = ()

    def matches(self, value: Any) -> bool:
        """Return whether the text contains the facts and no rival."""
        if not isinstance(value, str) or len(value) > LONGEST_EVIDENCE or set(DAY.findall(value)) - set(self.facts):
            return False
        return all(stands_in(one, value) for one in self.facts) and not any(
            stands_in(one, value) for one in self.rivals if one not in self.facts
        )


@dataclass(frozen=True)
class AtLeast:
    """An integer of at least this value, such as the number of a row that does not exist yet."""

    value: int

    def matches(self, value: Any) -> bool:
        """Return whether the value is such an integer."""
        return isinstance(value, int) and not isinstance(value, bool) and value >= self.value


@dataclass(frozen=True)
class Must:
    """A required change.

    Args:
        table: table of the row.
        kind: kind of change.
        columns: for an update, exactly the columns that change, with their new values; for a new row, those that
            matter; for a deleted row, those that identify it. A value may be a ``Matcher``.
        id: number of the row, where it is known in advance.
        name: name of the check, such as ``"paid"``.
    """

    table: str
    kind: Kind
    columns: Mapping[str, Any] = field(default_factory=dict)
    id: int | None = None
    name: str = ""

    def met_by(self, change: Change, idle: frozenset[str] = frozenset()) -> bool:
        """Return whether a change is the required one.

        Args:
            change: change of a row.
            idle: columns of its table that reading changes.
        """
        if (change.table, change.kind) != (self.table, self.kind) or self.id not in (None, change.id):
            return False
        ignored = FREE | (idle - set(self.columns) if self.kind == "update" else frozenset())
        changed = {name: value for name, value in change.columns.items() if name not in ignored}
        if self.kind == "update" and set(changed) != set(self.columns):
            return False
        return all(name in changed and _same(value, changed[name]) for name, value in self.columns.items())


@dataclass(frozen=True)
class May:
    """Permitted changes.

    Args:
        table: table of the row.
        kind: kind of change.
        columns: for an update, the only columns that may change.
    """

    table: str
    kind: Kind = "update"
    columns: frozenset[str] = frozenset()

    def allows(self, change: Change) -> bool:
        """Return whether a change is one of the permitted ones."""
        if (change.table, change.kind) != (self.table, self.kind):
            return False
        return self.kind != "update" or set(change.columns) <= self.columns | FREE


@dataclass(frozen=True)
class Refusal:
    """The required refusal of a task.

    Args:
        reason: reason of the refusal.
        evidence: fact that only an agent that has looked can know, such as the balance that is too small.
    """

    reason: Reason
    evidence: Matcher


def inserted(table: str, name: str = "", /, **columns: Any) -> Must:
    """Return the required insertion of a row with these columns."""
    return Must(table, "insert", columns, name=name or f"new {table}")


def updated(table: str, id: int, name: str = "", /, **columns: Any) -> Must:
    """Return the required update of a row: these columns change, and no others."""
    return Must(table, "update", columns, id, name or f"{table} {id}")


def deleted(table: str, id: int, name: str = "") -> Must:
    """Return the required deletion of a row."""
    return Must(table, "delete", {}, id, name or f"{table} {id} gone")


def plain(text: str) -> str:
    """Return a text without case, repeated spaces and punctuation around it."""
    return re.sub(r"\s+", " ", text.casefold()).strip(" \t\n.,;:!?\"'")


def stands_in(part: str, text: str) -> bool:
    """Return whether a text contains another as whole words, up to case and spaces: neither 15 nor 5.20 contains 5."""
    part, text = plain(part), plain(text)
    return bool(part) and part in text and whole_words(part).search(text) is not None


@lru_cache(maxsize=4096)
def whole_words(part: str) -> re.Pattern[str]:
    """Compile a pattern that finds a text, as ``plain`` returns it, as whole words."""
    begin = r"(?<!\w)(?<!\w[-.:/@])" if re.match(r"\w", part) else ""
    end = r"(?!\w)(?![-.:/@]\w)" if re.search(r"\w$", part) else ""
    return re.compile(f"{begin}{re.escape(part)}{end}")


def _same(wanted: Any, value: Any) -> bool:
    matches = getattr(wanted, "matches", None)  # asking whether it is a Matcher takes longer than all the rest
    if matches is not None:
        return bool(matches(value))
    return type(wanted) is type(value) and bool(wanted == value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if -LARGEST < value < LARGEST else None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,6})?", value.strip()):
        return float(value)
    return None
