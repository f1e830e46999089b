"""Databases drawn by a seed: people, things, and links between them, under the names of a theme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...rng import Rng

CITIES = ("Arlen", "Brook", "Corin", "Dover", "Elmet")
KINDS = ("basic", "large", "small", "spare")
NAMES = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jana", "Kai", "Lea", "Max", "Nora", "Otto",
    "Pia",    "Quin", "Rosa", "Sam", "Tess", "Udo", "Vera", "Will", "Yara",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Theme:
    """Names of tables and columns; the words for one row are also column names.

    Args:
        file: file name of the database.
        who: table of people: id, name, city.
        who_one: word for one of them.
        what: table of things: id, title, kind, price.
        what_one: word for one of them.
        link: table of links: id, both ends, amount, day.
        link_one: word for one of them.
        titles: titles of things.
    """

    file: str
    who: str
    who_one: str
    what: str
    what_one: str
    link: str
    link_one: str
    titles: tuple[str, ...]

    @property
    def words(self) -> dict[str, str]:
        """The words for the slots of prompts and statements."""
        return {
            "who": self.who,
            "who_one": self.who_one,
            "what": self.what,
            "what_one": self.what_one,
            "link": self.link,
            "link_one": self.link_one,
        }


THEMES: Mapping[str, Theme] = MappingProxyType(
    {
        "shop": Theme(
            "shop.db", "customers", "customer", "products", "product", "orders", "purchase",
            ("Anchor", "Bucket", "Candle", "Drum", "Engine", "Funnel", "Globe", "Hinge", "Inkwell", "Jar",
             "Kettle", "Lamp"),
        ),
        "library": Theme(
            "library.db", "readers", "reader", "books", "book", "loans", "loan",
            ("Arcadia", "Borders", "Currents", "Dunes", "Echoes", "Fables", "Gardens", "Harbors", "Islands",
             "Journeys", "Keys", "Letters"),
        ),
        "clinic": Theme(
            "clinic.db", "patients", "patient", "therapies", "therapy", "visits", "visit",
            ("Aroma", "Bandage", "Check", "Drops", "Exercise", "Filling", "Gargle", "Heat", "Infusion", "Jab", "Knead",
             "Laser"),
        ),
    }
)  # fmt: skip
"""Themes by name."""
LINK_COLUMNS = "id INTEGER PRIMARY KEY, {who_one} INTEGER, {what_one} INTEGER, amount INTEGER, day INTEGER"
SIZES: Mapping[int, tuple[int, int, int]] = MappingProxyType(
    {1: (6, 5, 9), 2: (9, 6, 16), 3: (12, 8, 26), 4: (16, 10, 40), 5: (22, 12, 60)}
)
"""Numbers of people, things and links by level."""


def script(theme: Theme, level: int, rng: Rng) -> str:
    """Return the SQL script that creates a database of a theme, in the size of a level."""
    people, things, links = SIZES[level]
    words = theme.words
    lines = [
        "CREATE TABLE {who} (id INTEGER PRIMARY KEY, name TEXT, city TEXT);",
        "CREATE TABLE {what} (id INTEGER PRIMARY KEY, title TEXT, kind TEXT, price INTEGER);",
        *(f"CREATE TABLE {table} ({LINK_COLUMNS});" for table in ("{link}", "archive")),
    ]
    lines = [line.format(**words) for line in lines]
    for id, name in enumerate(rng.sample(NAMES, people), 1):
        lines.append(f"INSERT INTO {theme.who} VALUES ({id}, '{name}', '{rng.pick(CITIES)}');")
    for id, title in enumerate(rng.sample(theme.titles, things), 1):
        lines.append(f"INSERT INTO {theme.what} VALUES ({id}, '{title}', '{rng.pick(KINDS)}', {rng.randint(5, 99)});")
    for id in range(1, links + 1):
        # Some people and things have no links: the last of each.
        row = (id, rng.randint(1, people - 2), rng.randint(1, things - 1), rng.randint(1, 9), rng.randint(1, 30))
        lines.append(f"INSERT INTO {theme.link} VALUES {row};")
    return "\n".join(lines) + "\n"
