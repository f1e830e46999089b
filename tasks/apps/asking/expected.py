"""What a task expects: which rows must change and how, which may, and what must be answered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..world.database import Change, Kind

FREE = frozenset({"id", "created_at", "updated_at", "sent_at"})
"""Columns that nobody is held to: they depend on when something was done."""
SLACK = 0.005
"""How far a number may be from the right one: less than a cent."""


@runtime_checkable
class Matcher(Protocol):
    """A value that several values are as good as."""

    def matches(self, value: Any) -> bool:
        """Whether this value is as good."""
        ...


@dataclass(frozen=True)
class Number:
    """A number, or its decimal text."""

    value: float

    def matches(self, value: Any) -> bool:
        """Whether it is this number, up to ``SLACK``."""
        read = _number(value)
        return read is not None and abs(read - self.value) <= SLACK


@dataclass(frozen=True)
class Text:
    """A text up to case, spaces and the punctuation around it.

    Args:
        value: the text.
        aliases: others that are as good.
    """

    value: str
    aliases: tuple[str, ...] = ()

    def matches(self, value: Any) -> bool:
        """Whether it is this text or one of its aliases."""
        said = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
        return said is not None and plain(said) in {plain(text) for text in (self.value, *self.aliases)}


@dataclass(frozen=True)
class Listing:
    """Several values, in any order, each once; as a list, or as a text with commas between them."""

    values: tuple[str | float, ...]

    def matches(self, value: Any) -> bool:
        """Whether the same values are in it, and no others."""
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, Sequence) or len(parts) != len(self.values):
            return False
        left = list(parts)
        for wanted in self.values:
            matcher = Number(wanted) if isinstance(wanted, float | int) else Text(wanted)
            found = next((part for part in left if matcher.matches(part)), None)
            if found is None:
                return False
            left.remove(found)
        return True


@dataclass(frozen=True)
class Containing:
    """A text in which some others stand, up to case and spaces."""

    parts: tuple[str, ...]

    def matches(self, value: Any) -> bool:
        """Whether all of them stand in it."""
        return isinstance(value, str) and all(plain(part) in plain(value) for part in self.parts)


@dataclass(frozen=True)
class AtLeast:
    """A whole number that is this one or a larger one, as the number of a row that is yet to be made."""

    value: int

    def matches(self, value: Any) -> bool:
        """Whether it is."""
        return isinstance(value, int) and not isinstance(value, bool) and value >= self.value


@dataclass(frozen=True)
class Must:
    """A change that there must be.

    Args:
        table: of the row.
        kind: what is done to the row.
        columns: for an update, exactly the columns that change, with what they change to; for a new row, those that
            matter; for a deleted one, those that say which. A value may be a ``Matcher``.
        id: the row's number, where it is known in advance.
        name: of the check, such as ``"paid"``.
    """

    table: str
    kind: Kind
    columns: Mapping[str, Any] = field(default_factory=dict)
    id: int | None = None
    name: str = ""

    def met_by(self, change: Change) -> bool:
        """Whether it is this change."""
        if (change.table, change.kind) != (self.table, self.kind) or self.id not in (None, change.id):
            return False
        changed = {name: value for name, value in change.columns.items() if name not in FREE}
        if self.kind == "update" and set(changed) != set(self.columns):
            return False
        return all(name in changed and _same(value, changed[name]) for name, value in self.columns.items())


@dataclass(frozen=True)
class May:
    """Changes that nobody minds.

    Args:
        table: of the row.
        kind: what is done to the row.
        columns: for an update, the only columns that may change.
    """

    table: str
    kind: Kind = "update"
    columns: frozenset[str] = frozenset()

    def allows(self, change: Change) -> bool:
        """Whether this change is one of them."""
        if (change.table, change.kind) != (self.table, self.kind):
            return False
        return self.kind != "update" or set(change.columns) <= self.columns | FREE


def inserted(table: str, name: str = "", /, **columns: Any) -> Must:
    """A new row with these columns."""
    return Must(table, "insert", columns, name=name or f"new {table}")


def updated(table: str, id: int, name: str = "", /, **columns: Any) -> Must:
    """A row whose columns have changed to these, and no others."""
    return Must(table, "update", columns, id, name or f"{table} {id}")


def deleted(table: str, id: int, name: str = "") -> Must:
    """A row that is gone."""
    return Must(table, "delete", {}, id, name or f"{table} {id} gone")


def plain(text: str) -> str:
    """A text without what does not matter in it."""
    return re.sub(r"\s+", " ", text.casefold()).strip(" \t\n.,;:!?\"'")


def _same(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, Matcher):
        return wanted.matches(value)
    return type(wanted) is type(value) and bool(wanted == value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}(\.\d{1,6})?", value.strip()):
        return float(value)
    return None
