"""Where worlds of sites begin: whole databases, each made once per process and copied for every episode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from threading import RLock

from ..people.cast import Cast, cast_of
from ..rng import Rng
from ..rows.database import Database
from ..spec import Split
from .asking import accounts
from .catalogue import PARTS

WORLDS = 64
"""How many there are for every split; a task's seed chooses one."""


@dataclass(frozen=True)
class Origin:
    """A world as every episode in it begins.

    Args:
        db: its database, open for reading.
        image: its database as a value.
        cast: who is in it.
    """

    db: Database
    image: bytes
    cast: Cast
    _lock: RLock = field(default_factory=RLock)

    @contextmanager
    def tried(self) -> Iterator[Database]:
        """The database, to look around in and to try rows in: what is written within is undone."""
        with self._lock, suppress(_Undone), self.db.whole():
            yield self.db
            raise _Undone


class _Undone(Exception):
    """Nothing of what was tried is kept."""


@lru_cache(maxsize=WORLDS)
def origin(split: Split, number: int) -> Origin:
    """The world with this number: a pure function of both arguments, which takes tens of milliseconds."""
    rng = Rng("web world", str(split), number)
    cast = cast_of(rng.child("cast"), split)
    db = Database()
    db.make(accounts.SCHEMA)
    for part in PARTS:
        db.make(part.site.schema)
    with db.whole():
        accounts.fill(db, cast, rng.child("accounts"), tuple(part.site.name for part in PARTS))
        for part in PARTS:
            part.fill(db, cast, rng.child(part.site.name))
    db.forget()
    return Origin(db, db.image(), cast)
