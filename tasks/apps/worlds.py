"""Worlds as values: whole databases, each made once per process and copied for every episode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..rng import Rng
from ..spec import Split
from .account.history import passwords
from .catalogue import PARTS
from .world.cast import Cast, cast_of
from .world.database import Database

WORLDS = 64
"""How many there are for every split; a task's seed chooses one."""
KEPT = 64
"""How many a process remembers: some 20 MB."""


@dataclass(frozen=True)
class Origin:
    """A world as every episode in it begins.

    Args:
        image: its database.
        cast: who is in it.
    """

    image: bytes
    cast: Cast


@lru_cache(maxsize=KEPT)
def origin(split: Split, number: int) -> Origin:
    """The world with this number: a pure function of both arguments, which takes tens of milliseconds."""
    rng = Rng("apps world", str(split), number)
    cast = cast_of(rng.child("cast"), split)
    db = Database()
    parts = [part for part in PARTS if split is Split.CHALLENGE or not part.held_out]
    for part in parts:
        db.make(part.app.schema)
    with db.whole():
        for part in parts:
            part.fill(db, cast, rng.child(part.app.name))
        passwords(db, tuple(part.app.name for part in parts if part.app.private), rng.child("passwords"))
    db.watch()
    image = db.image()
    db.close()
    return Origin(image, cast)
