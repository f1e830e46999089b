"""The user's profile, and a password for every app."""

from __future__ import annotations

from ....people.cast import Cast
from ....rng import Rng
from ....rows.database import Database

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Write the user's profile."""
    user = cast.user
    db.insert(
        "profile",
        first_name=user.first,
        last_name=user.last,
        email=user.email,
        phone=user.phone,
        city=user.city,
        birthday=user.birthday,
        company=user.company,
    )


def fill_passwords(db: Database, cast: Cast, rng: Rng, *, apps: tuple[str, ...]) -> None:
    """Write a password for every app that needs one."""
    for app in apps:
        db.insert("passwords", app=app, password="".join(rng.pick(LETTERS) for _ in range(8)))
