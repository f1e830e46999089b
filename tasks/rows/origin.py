"""``Origin``: a world as every episode in it begins, made once per process and copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from ..people.cast import Cast
from ..spec import TaskSpec
from .database import Database

WORLDS = 64
"""How many there are for every split; a task's seed chooses one. A process remembers as many, which are some 20 MB."""
STAYS = 8
"""How many draws in one world may be unsuitable before a template is given the next."""


@dataclass(frozen=True)
class Origin:
    """A world as every episode in it begins.

    Args:
        db: its database, open for reading.
        image: its database as a value.
        cast: its people.
    """

    db: Database
    image: bytes
    cast: Cast
    _lock: RLock = field(default_factory=RLock)

    @contextmanager
    def tried(self) -> Iterator[Database]:
        """The database, for reading and for trial writes, which are undone at the end of the block."""
        with self._lock, suppress(_Undone), self.db.whole():
            yield self.db
            raise _Undone

    def opened(self, setup: Sequence[tuple[str, Mapping[str, Any]]]) -> Database:
        """A copy of the database for an episode.

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
    """The number of a task's world.

    Args:
        spec: spec of the task.
        draw: number of unsuitable draws before this one.
    """
    return (spec.seed + draw // STAYS) % WORLDS
