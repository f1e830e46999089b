"""The rows of a world: one SQLite database in memory that records what has changed since its creation."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from ...errors import ToolError

Row = dict[str, Any]
"""Columns of a row, by name."""
Kind = Literal["insert", "update", "delete"]
PAGES = 2048
"""Most pages of 4 KiB for a world's rows: 8 MiB, more than twenty times their initial size."""


class NoRoom(ToolError):
    """Raised when a write does not fit into the database; the call is undone."""

    def __init__(self) -> None:
        super().__init__("507 there is no room for this: delete something first")


@dataclass(frozen=True)
class Change:
    """The difference between a row's initial and current state.

    Args:
        table: its table.
        id: its number.
        before: its columns when the world began; ``None`` if it was not there.
        after: its columns now; ``None`` if it was deleted.
    """

    table: str
    id: int
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def kind(self) -> Kind:
        """The kind of change: ``"insert"``, ``"update"`` or ``"delete"``."""
        return "insert" if self.before is None else "delete" if self.after is None else "update"

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """The columns that differ, with their new values; for a new or deleted row, all of its columns."""
        if self.before is None or self.after is None:
            return dict(self.before or self.after or {})
        return {name: value for name, value in self.after.items() if value != self.before[name]}

    def __str__(self) -> str:
        shown = ", ".join(sorted(self.columns)) if self.kind == "update" else ""
        return f"{self.table} {self.id}: {self.kind}" + (f" of {shown}" if shown else "")


class Database:
    """Rows of tables, each with an ``id``. The first state of every row that is touched is kept, so that what has
    changed is known without comparing tables; that is why rows are written by ``insert``, ``update`` and ``delete``
    only.

    Args:
        image: a database as ``image()`` gives it; without one it is empty.
    """

    def __init__(self, image: bytes | None = None) -> None:
        self._first: dict[tuple[str, int], Row | None] = {}
        self._lately: dict[tuple[str, int], Row | None] = {}
        self._known: tuple[int, tuple[Change, ...]] | None = None
        # Used by one thread at a time: an environment may be stepped from another than the one that made it.
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if image is not None:
            self._connection.deserialize(image)
        self._connection.execute(f"PRAGMA max_page_count = {PAGES}")

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Return all rows of a query."""
        cursor = self._connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def row(self, sql: str, *values: Any) -> Row | None:
        """Return the first row of a query, or ``None``."""
        cursor = self._connection.execute(sql, values)
        row = cursor.fetchone()
        return (
            None if row is None else {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
        )

    def value(self, sql: str, *values: Any) -> Any:
        """Return the first column of the first row of a query; ``None`` if there is none."""
        found = self.row(sql, *values)
        return None if found is None else next(iter(found.values()))

    def insert(self, table: str, **columns: Any) -> int:
        """Insert a row, and return its id."""
        names, holes = ", ".join(columns), ", ".join("?" * len(columns))
        cursor = self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({holes})", tuple(columns.values()))
        assert cursor.lastrowid is not None
        self._first.setdefault((table, cursor.lastrowid), None)
        self._lately.setdefault((table, cursor.lastrowid), None)
        return cursor.lastrowid

    def update(self, table: str, id: int, **columns: Any) -> None:
        """Change columns of a row."""
        self._note(table, id)
        pairs = ", ".join(f"{name} = ?" for name in columns)
        self._connection.execute(f"UPDATE {table} SET {pairs} WHERE id = ?", (*columns.values(), id))

    def delete(self, table: str, id: int) -> None:
        """Delete a row."""
        self._note(table, id)
        self._connection.execute(f"DELETE FROM {table} WHERE id = ?", (id,))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Keep all changes made in the block, or none if it raises.

        Raises:
            NoRoom: it does not fit.
        """
        first = dict(self._first)
        self._connection.execute("SAVEPOINT call")
        try:
            yield
        except BaseException as error:
            if self._connection.in_transaction:  # SQLite has undone what did not fit
                self._connection.execute("ROLLBACK TO call")
            self._first, self._known = first, None
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise NoRoom from None
            raise
        finally:
            if self._connection.in_transaction:
                self._connection.execute("RELEASE call")

    @property
    def writes(self) -> int:
        """Number of rows written so far."""
        return self._connection.total_changes

    # -- as a value -------------------------------------------------------------------------------------------

    def image(self) -> bytes:
        """Return the whole database as a value."""
        return self._connection.serialize()

    def fork(self) -> Self:
        """Return an independent database with the same rows and the same history."""
        clone = type(self)(self.image())
        clone._first, clone._lately = dict(self._first), dict(self._lately)
        return clone

    def close(self) -> None:
        """Release its memory."""
        self._connection.close()

    def __del__(self) -> None:
        self._connection.close()

    # -- what has changed -------------------------------------------------------------------------------------

    def make(self, schema: str) -> None:
        """Create tables."""
        self._connection.executescript(schema)

    def forget(self) -> None:
        """Make the current state the initial one."""
        self._first, self._lately, self._known = {}, {}, None

    def latest(self) -> tuple[Change, ...]:
        """Return every row that differs from its state at the previous call, or at the beginning, by table and id."""
        lately, self._lately = self._lately, {}
        return self._compared(lately)

    def changes(self) -> tuple[Change, ...]:
        """Return every row that differs from its initial state, by table and id."""
        if self._known is not None and self._known[0] == self.writes:
            return self._known[1]
        self._known = self.writes, self._compared(self._first)
        return self._known[1]

    def _compared(self, earlier: Mapping[tuple[str, int], Row | None]) -> tuple[Change, ...]:
        found = []
        for (table, id), before in sorted(earlier.items(), key=lambda item: item[0]):
            after = self.row(f"SELECT * FROM {table} WHERE id = ?", id)
            if before != after:
                found.append(Change(table, id, before, after))
        return tuple(found)

    def _note(self, table: str, id: int) -> None:
        key = (table, id)
        if key not in self._first or key not in self._lately:
            row = self.row(f"SELECT * FROM {table} WHERE id = ?", id)
            if row is not None:
                self._first.setdefault(key, row)
                self._lately.setdefault(key, row)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Names of all tables."""
        found = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        return tuple(row["name"] for row in found)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()
