"""``Simulator``: an app or a site over the rows of a world, and the live ``Simulation`` of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, Self, TypeVar

from .data import text_beside
from .database import Change, Database
from .known import put_back

S = TypeVar("S", bound="Simulator")
MOST_CHANGES = 50
"""Changed rows of one turn that are recorded by name; of more, only the number is."""


class Simulator:
    """One app or site over the database of a world.

    A subclass sets the class fields. Beside its module, a file ``schema.sql`` creates its tables; every table has
    ``id INTEGER PRIMARY KEY AUTOINCREMENT``.

    Args:
        db: database of the world.
        now: simulated time.
        per_page: number of rows on a page of results.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """A one-line description, which agents read."""
    idle: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Columns, by table, that reading changes; reading a message, for instance, clears ``unread``."""
    keys: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Columns, by table, that identify a row whose id is never shown. Deleting such a row and inserting it again
    therefore counts as no change."""

    def __init__(self, db: Database, now: datetime, per_page: int) -> None:
        self.db, self.now, self.per_page = db, now, per_page

    @classmethod
    def schema(cls) -> str:
        """Return the SQL that creates its tables."""
        return text_beside(cls.__module__, "schema.sql")

    @property
    def stamp(self) -> str:
        """The simulated time in ISO format, to the minute."""
        return self.now.isoformat(timespec="minutes")


class Simulation(Generic[S]):
    """Live simulators over one database, which knows every change since the beginning.

    Args:
        db: rows of the simulators.
        simulators: classes of the simulators.
    """

    def __init__(self, db: Database, simulators: Sequence[type[S]]) -> None:
        self.db, self.simulators = db, tuple(simulators)

    def changes(self) -> tuple[Change, ...]:
        """Return every row that differs from the beginning. A row that was deleted and inserted again is the same row
        if its id is never shown."""
        keys = {table: key for simulator in self.simulators for table, key in simulator.keys.items()}
        return put_back(self.db.changes(), keys)

    def latest(self) -> list[str]:
        """Return a line for each row that differs since the previous call, for the records of a turn.

        A line has no values: a world may hold what the agent has to find, and clients of a server read the records.
        """
        changes = [str(change) for change in self.db.latest()]
        left = len(changes) - MOST_CHANGES
        return [*changes[:MOST_CHANGES], *([f"{left} more"] if left > 0 else [])]

    def fork(self) -> Self:
        """Return an independent simulation in the same state, with a copy of the database."""
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()
