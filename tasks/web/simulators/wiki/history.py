"""Initial rows of the wiki: pages with facts that link to each other, and their versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.database import Database
from ..accounts import account_of
from .company import HEADS, phrases, sentences


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert all rows."""
    wiki = _Writing(db, cast, rng.child("pages"))
    wiki.pages()
    wiki.facts()
    wiki.texts(rng.child("texts"))
    _talk(db, cast, rng.child("talk"))


@dataclass
class _Writing:
    """Writer of the pages of one wiki; ``made`` has their ids by section."""

    db: Database
    cast: Cast
    rng: Rng
    made: dict[str, list[int]] = field(default_factory=dict)

    def pages(self) -> None:
        """Insert every page, still empty, since facts link pages in all directions."""
        rng, words, texts = self.rng, self.cast.words, phrases()
        others = rng.sample(list(self.cast.others), 15)
        self.make("people", [self.cast.user.name, *(person.name for person in others)])
        self.make("teams", [f"{name} team" for name in rng.sample(list(texts["teams"]), 6)])
        self.make("offices", [f"Office {city}" for city in rng.sample(list(words["city"]), 5)])
        brands = rng.sample(list(words["brand"]), 3)
        names = {f"{brand} {thing}" for brand in brands for thing in rng.sample(texts["goods"], 3)}
        models = [f"{name} {size}" for name in sorted(names) for size in sorted(rng.sample(range(2, 10), 2))]
        self.make("products", [f"{model}00" for model in models])
        rules = rng.sample(list(texts["handbook"]), 8)
        old = [f"{rule} (until {rng.randint(2019, 2023)})" for rule in rng.sample(rules, 4)]
        self.make("handbook", [*rules, *old])
        self.make("how-tos", rng.sample(list(texts["how_tos"]), 10))

    def make(self, section: str, titles: list[str]) -> None:
        """Insert the pages of a section, some of them protected."""
        share = {"handbook": 0.4, "products": 0.15, "how-tos": 0.2}.get(section, 0.0)
        for title in titles:
            keeper = self.rng.pick(self.cast.others).name if self.rng.random() < share else ""
            id = self.db.insert("wiki_pages", title=title, section=section, protected_by=keeper)
            self.made.setdefault(section, []).append(id)

    def fact(self, page: int, label: str, value: str = "", of: str = "") -> None:
        """Insert a fact of a page; with ``of``, a link to another page of that section."""
        to = self.rng.pick([one for one in self.made[of] if one != page]) if of else 0
        self.db.insert("wiki_facts", page_id=page, label=label, value=value, to_page_id=to)

    def facts(self) -> None:
        """Insert the facts of every page."""
        rng, numbers = self.rng, self.rng.sample(range(3000, 10_000), 60)  # none looks like a year
        for page in self.made["people"]:
            self.fact(page, "Role", rng.pick(phrases()["roles"]))
            self.fact(page, "Team", of="teams")
            self.fact(page, "Office", of="offices")
            self.fact(page, "Extension", str(numbers.pop()))
        for page in self.made["teams"]:
            self.fact(page, "Lead", of="people")
            self.fact(page, "Office", of="offices")
            self.fact(page, "Cost center", str(numbers.pop()))
        for page in self.made["offices"]:
            self.fact(page, "Street", f"{rng.pick(self.cast.words['street'])} {rng.randint(1, 90)}")
            self.fact(page, "Phone", f"555-{rng.randrange(1000):03}-{rng.randrange(10_000):04}")
            self.fact(page, "Desks", str(rng.randint(12, 240)))
            self.fact(page, "Keyholder", of="people")
        for page in self.made["products"]:
            self.fact(page, "Owner", of="teams")
            self.fact(page, "Item number", f"A-{rng.randint(10_000, 99_999)}")
            self.fact(page, "Released", self.cast.day(-rng.randint(100, 3000)))
        for page in self.made["how-tos"]:
            self.fact(page, "Contact", of="people")
            self.fact(page, "Form", f"F-{rng.randint(100, 999)}")
        for page in self.made["handbook"]:
            self.fact(page, "Approved by", of="people")
            self.fact(page, "Valid from", self.cast.day(-rng.randint(100, 2500)))

    def texts(self, rng: Rng) -> None:
        """Insert the paragraphs of pages with all their versions."""
        authors = [self.cast.user.name, *(person.name for person in rng.sample(list(self.cast.others), 9))]
        minutes = iter(rng.sample(range(2000, 900_000), 500))  # no two changes at once: there is always a last one
        for section, pages in self.made.items():
            for page in pages:
                for position, head in enumerate(HEADS[section], 1):
                    ages = sorted((next(minutes) for _ in range(rng.pick((1, 1, 2, 2, 3)))), reverse=True)
                    bodies = _versions(rng, head, len(ages))
                    columns = {"page_id": page, "position": position, "head": head, "body": bodies[-1]}
                    part = self.db.insert("wiki_parts", **columns)
                    for number, (age, body) in enumerate(zip(ages, bodies, strict=True)):
                        self.db.insert(
                            "wiki_revisions",
                            page_id=page,
                            part_id=part,
                            what=head,
                            author=rng.pick(authors),
                            note=rng.pick(phrases()["notes"]) if number else "first version",
                            body=body,
                            created_at=(self.cast.now - timedelta(minutes=age)).isoformat(timespec="minutes"),
                        )


def _versions(rng: Rng, head: str, count: int) -> list[str]:
    """Return the versions of a text: each adds a sentence to the previous one, or replaces one."""
    pool = list(sentences()[head])
    rng.shuffle(pool)
    said, found = pool[:2], [" ".join(pool[:2])]
    for sentence in pool[2 : count + 1]:
        said = [*said, sentence] if rng.random() < 0.5 else [*said[:-1], sentence]
        found.append(" ".join(said))
    return found


def _talk(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert comments on pages, and the user's watch list."""
    me = account_of(db, "wiki")["id"]
    pages = [row["id"] for row in db.rows("SELECT id FROM wiki_pages ORDER BY id")]
    for page in rng.sample(pages, 22):
        for _ in range(rng.randint(1, 4)):
            at = cast.now - timedelta(minutes=rng.randint(2000, 600_000))
            author = cast.user.name if rng.random() < 0.15 else rng.pick(cast.others).name
            columns = {"page_id": page, "author": author, "text": rng.pick(phrases()["talk"])}
            db.insert("wiki_comments", **columns, created_at=at.isoformat(timespec="minutes"))
    for page in rng.sample(pages, rng.randint(6, 9)):
        db.insert("wiki_watches", account_id=me, page_id=page)
