"""Initial rows of the user's address book."""

from __future__ import annotations

from ....people.cast import Cast
from ....rng import Rng
from ....rows.database import Database

GROUPS = ("book club", "football", "neighbors", "project team", "choir")


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert all contacts, some of them into groups."""
    for person in cast.others:
        id = db.insert(
            "contacts",
            first_name=person.first,
            last_name=person.last,
            email=person.email,
            phone=person.phone,
            city=person.city,
            birthday=person.birthday,
            company=person.company,
            relation=person.relation,
            favorite=int(rng.random() < 0.2),
        )
        for group in GROUPS:
            if rng.random() < 0.2:
                db.insert("groups", contact_id=id, name=group)
