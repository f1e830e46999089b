"""The people of a world: the user, and everyone whom the user knows."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..rng import Rng
from ..spec import Split

NAMES = Path(__file__).with_name("names.toml")
PEOPLE = 24
"""Number of people whom the user knows."""
UNSEEN = (Split.TEST_ENTITY, Split.CHALLENGE)
"""Splits whose names no other split uses."""


@dataclass(frozen=True, slots=True)
class Person:
    """A name, contact data and what else a world records about someone.

    Args:
        first: first name.
        last: last name.
        email: email address, unique in a world.
        phone: phone number, unique in a world.
        city: city of residence.
        birthday: date of birth, such as ``1984-05-30``.
        company: employer.
        relation: relation to the user: ``friend``, ``family`` or ``colleague``.
    """

    first: str
    last: str
    email: str
    phone: str
    city: str
    birthday: str
    company: str
    relation: str

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"


@dataclass(frozen=True, slots=True)
class Cast:
    """The people of a world, and its present.

    Args:
        user: the user whom the agent works for.
        others: people whom the user knows; full names are unique, and some first names are shared.
        now: date and time at which an episode begins.
        words: vocabulary for generated texts by kind, such as ``words["topic"]``; see ``names.toml``.
    """

    user: Person
    others: tuple[Person, ...]
    now: datetime
    words: dict[str, tuple[str, ...]]

    def day(self, days: int) -> str:
        """Return the date a number of days from now, such as ``2025-05-14``."""
        return (self.now + timedelta(days=days)).date().isoformat()


@lru_cache(maxsize=2)
def vocabulary(unseen: bool) -> dict[str, tuple[str, ...]]:
    """Return words by kind. ``[seen]`` and ``[unseen]`` share none; ``[always]`` is part of both results.

    Args:
        unseen: the names that only some splits use.
    """
    data: dict[str, Any] = tomllib.loads(NAMES.read_text(encoding="utf-8"))
    return {kind: tuple(words) for kind, words in (data["always"] | data["unseen" if unseen else "seen"]).items()}


def cast_of(rng: Rng, split: Split) -> Cast:
    """Draw the people of a world from the names of its split."""
    words = vocabulary(split in UNSEEN)
    firsts, lasts = list(words["first"]), list(words["last"])
    rng.shuffle(firsts)
    rng.shuffle(lasts)
    firsts = firsts[: PEOPLE - 5]  # so that some first names come twice
    now = datetime(2025, 1, 6, 8) + timedelta(days=rng.randrange(300), minutes=15 * rng.randrange(8))
    taken: set[str] = set()
    people: list[Person] = []
    while len(people) < PEOPLE + 1:
        first = firsts[len(people)] if len(people) < len(firsts) else rng.pick(firsts[1:])
        last = rng.pick(lasts)
        if f"{first} {last}" not in taken and last.lower() not in taken:
            taken |= {f"{first} {last}", last.lower()}
            people.append(_person(rng, first, last, words, now))
    return Cast(people[0], tuple(people[1:]), now, words)


def _person(rng: Rng, first: str, last: str, words: dict[str, tuple[str, ...]], now: datetime) -> Person:
    email = f"{first}.{last}@{rng.pick(words['domain'])}".lower()
    phone = f"555-{rng.randrange(1000):03}-{rng.randrange(10_000):04}"
    born = datetime(rng.randint(1950, 2002), rng.randint(1, 12), rng.randint(1, 28)).date().isoformat()
    relation = rng.pick(("friend", "friend", "family", "colleague", "colleague"))
    return Person(first, last, email, phone, rng.pick(words["city"]), born, rng.pick(words["company"]), relation)
