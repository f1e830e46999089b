"""``BaseWorld``: the initial state of a world, generated once per process and copied for every episode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Generic, Self

from ..people.cast import Cast, cast_of
from ..rng import Rng
from ..spec import Split, TaskSpec
from .database import Database
from .simulator import S

WORLDS = 64
"""Number of worlds per split; a task's seed selects one. A process caches as many, about 20 MB."""
STAYS = 8
"""Most unsuitable draws in one world before a template moves to the next."""
Fill = Callable[[Database, Cast, Rng], None]
"""A function that writes the initial rows of a part of a world."""


@dataclass(frozen=True)
class Part(Generic[S]):
    """A simulator of every world.

    Args:
        simulator: class of the app or site.
        fill: function that writes its initial rows.
        held_out: whether only the split ``challenge`` has it, or tasks about it.
    """

    simulator: type[S]
    fill: Fill
    held_out: bool = False


@dataclass(frozen=True)
class BaseWorld:
    """The initial state of a world.

    Args:
        db: its database, open for reading.
        image: its database as a value.
        cast: its people.
    """

    db: Database
    image: bytes
    cast: Cast
    _lock: RLock = field(default_factory=RLock)

    @classmethod
    def create(cls, family: str, split: Split, number: int, schemas: Iterable[str], fills: Mapping[str, Fill]) -> Self:
        """Create a world, which takes tens of milliseconds. It is a pure function of the arguments.

        Args:
            family: name of the family.
            split: split that the world belongs to.
            number: number of the world in its split.
            schemas: SQL that creates the tables.
            fills: functions that write the initial rows, by the name of their random numbers, in the order in which
                they run: rows of later parts may refer to those of earlier ones.
        """
        rng = Rng(f"{family} world", str(split), number)
        cast = cast_of(rng.child("cast"), split)
        db = Database()
        for schema in schemas:
            db.make(schema)
        with db.whole():
            for name, fill in fills.items():
                fill(db, cast, rng.child(name))
        db.forget()
        return cls(db, db.image(), cast)

    @contextmanager
    def trial(self) -> Iterator[Database]:
        """Yield the database, for reading and for trial writes, which are undone at the end of the block."""
        with self._lock, suppress(_Undone), self.db.whole():
            yield self.db
            raise _Undone

    def open(self, setup: Sequence[tuple[str, Mapping[str, Any]]]) -> Database:
        """Return a copy of the database for an episode.

        Args:
            setup: rows that a template put into it (``Scene.setup``).
        """
        db = Database(self.image)
        for table, columns in setup:
            db.insert(table, **columns)
        db.forget()
        return db


class _Undone(Exception):
    """Raised to undo trial writes."""


def world_of(spec: TaskSpec, draw: int) -> int:
    """Return the number of a task's world.

    Args:
        spec: spec of the task.
        draw: number of unsuitable draws before this one.
    """
    return (spec.seed + draw // STAYS) % WORLDS
