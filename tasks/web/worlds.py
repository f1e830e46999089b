"""Where worlds of sites begin: whole databases, each made once per process and copied for every episode."""

from __future__ import annotations

from functools import lru_cache

from ..people.cast import cast_of
from ..rng import Rng
from ..rows.database import Database
from ..rows.origin import WORLDS, Origin
from ..spec import Split
from .catalogue import PARTS
from .simulators import accounts


@lru_cache(maxsize=WORLDS)
def origin(split: Split, number: int) -> Origin:
    """The world with this number: a pure function of both arguments, which takes tens of milliseconds."""
    rng = Rng("web world", str(split), number)
    cast = cast_of(rng.child("cast"), split)
    db = Database()
    db.make(accounts.schema())
    for part in PARTS:
        db.make(part.site.schema())
    with db.whole():
        accounts.fill(db, cast, rng.child("accounts"), tuple(part.site.name for part in PARTS))
        for part in PARTS:
            part.fill(db, cast, rng.child(part.site.name))
    db.forget()
    return Origin(db, db.image(), cast)
