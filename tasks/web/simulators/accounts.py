"""User accounts on sites."""

from __future__ import annotations

from ...people.cast import Cast
from ...rng import Rng
from ...rows.data import text_beside
from ...rows.database import Database, Row


def schema() -> str:
    """Return the SQL that creates the table of accounts."""
    return text_beside(__name__, "accounts.sql")


def fill(db: Database, cast: Cast, rng: Rng, sites: tuple[str, ...]) -> None:
    """Insert the user's account on every site, which always comes first there, and accounts of some other people.

    Args:
        db: database to fill.
        cast: people of the world.
        rng: random numbers of the world.
        sites: names of the sites.
    """
    for site in sites:
        people = [cast.user, *rng.sample(list(cast.others), 6)]
        for number, person in enumerate(people):
            db.insert(
                "accounts",
                site=site,
                username=f"{person.first}.{person.last}".lower()
                if number % 2 == 0
                else f"{person.first[0]}{person.last}".lower(),
                password=f"{rng.pick(cast.words['thing'])}-{rng.randrange(100, 1000)}",
                name=person.name,
                role="member",
            )


def join(db: Database, cast: Cast, rng: Rng, site: str, many: int) -> list[Row]:
    """Insert more accounts on a site that needs more people, for people without an account there.

    Args:
        db: database to fill.
        cast: people of the world.
        rng: random numbers of the site.
        site: name of the site.
        many: required total number of accounts.

    Returns:
        All accounts of the site, the user's first.
    """
    known = {row["name"] for row in db.rows("SELECT name FROM accounts WHERE site = ?", site)}
    for person in [one for one in cast.others if one.name not in known][: many - len(known)]:
        password = f"{rng.pick(cast.words['thing'])}-{rng.randrange(100, 1000)}"
        username = f"{person.last}.{person.first}".lower()
        db.insert("accounts", site=site, username=username, password=password, name=person.name, role="member")
    return db.rows("SELECT * FROM accounts WHERE site = ? ORDER BY id", site)


def account_of(db: Database, site: str) -> dict[str, object]:
    """Return the row of the user's account on a site."""
    row = db.row("SELECT * FROM accounts WHERE site = ? ORDER BY id LIMIT 1", site)
    assert row is not None
    return row
