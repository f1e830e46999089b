"""``Scene``: a world as templates see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..people.cast import Cast
from ..rng import Rng
from .database import Database, Row
from .expected import AtLeast

T = TypeVar("T")


class Unsuitable(Exception):
    """Raised when a draw makes no good task (nothing to find, or several right answers); the family draws again."""


@dataclass
class Scene:
    """A world, its people and random numbers, from which a template makes a task.

    Args:
        db: the world's rows, which the template may read, and change only through ``add``.
        cast: the people.
        rng: random numbers of the task.
        level: 1 to 5; a higher one asks for more conditions, or about more rows.
    """

    db: Database
    cast: Cast
    rng: Rng
    level: int
    setup: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def add(self, table: str, **columns: Any) -> int:
        """Insert a row before the episode starts, and return its id."""
        id = self.db.insert(table, **columns)
        self.setup.append((table, {"id": id, **columns}))
        return id

    def need(self, wanted: bool) -> None:
        """Check a condition on the draw.

        Raises:
            Unsuitable: the condition does not hold.
        """
        if not wanted:
            raise Unsuitable

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of several things.

        Raises:
            Unsuitable: there are none.
        """
        self.need(bool(items))
        return self.rng.pick(items)

    def row(self, sql: str, *values: Any) -> Row:
        """Draw one row of a query.

        Raises:
            Unsuitable: there is none.
        """
        return self.pick(self.db.rows(sql, *values))

    def texts(self, sql: str, *values: Any) -> tuple[str, ...]:
        """Return the first column of all rows of a query, as texts."""
        return tuple(str(next(iter(row.values()))) for row in self.db.rows(sql, *values))

    def next_id(self, table: str) -> AtLeast:
        """Return a lower bound of the id of a row that will be inserted: larger than any id so far."""
        return AtLeast(int(self.db.value("SELECT seq FROM sqlite_sequence WHERE name = ?", table) or 0) + 1)
