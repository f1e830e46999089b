"""The initial worlds: whole databases, each made once per process and copied for every episode."""

from __future__ import annotations

from functools import lru_cache

from ..people.cast import cast_of
from ..rng import Rng
from ..rows.database import Database
from ..rows.origin import WORLDS, Origin
from ..spec import Split
from .catalogue import PARTS
from .simulators.account.history import passwords


@lru_cache(maxsize=WORLDS)
def origin(split: Split, number: int) -> Origin:
    """The world with this number: a pure function of both arguments, which takes tens of milliseconds."""
    rng = Rng("apps world", str(split), number)
    cast = cast_of(rng.child("cast"), split)
    db = Database()
    parts = [part for part in PARTS if split is Split.CHALLENGE or not part.held_out]
    for part in parts:
        db.make(part.app.schema())
    with db.whole():
        for part in parts:
            part.fill(db, cast, rng.child(part.app.name))
        passwords(db, tuple(part.app.name for part in parts if part.app.private), rng.child("passwords"))
    db.forget()
    return Origin(db, db.image(), cast)
