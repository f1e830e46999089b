"""Initial rows of the newsroom."""

from __future__ import annotations

from datetime import timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.database import Database
from ..accounts import account_of
from .desk import CATEGORIES, PLACES, phrases, slug_of

ARTICLES = 90


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert all rows."""
    _people(db, cast, rng.child("people"))
    _articles(db, cast, rng.child("articles"))
    _comments(db, cast, rng.child("comments"))
    _rest(db, cast, rng.child("rest"))


def _people(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert the roles of accounts (the user is an editor), authors, and the category that requires reviews."""
    me = account_of(db, "cms")["id"]
    for number, row in enumerate(db.rows("SELECT id FROM accounts WHERE site = 'cms' ORDER BY id")):
        role = "editor" if row["id"] == me else ("chief", "editor", "reporter")[min(number - 1, 2)]
        db.update("accounts", row["id"], role=role)
    names = [row["name"] for row in db.rows("SELECT name FROM accounts WHERE site = 'cms' AND role = 'reporter'")]
    others = [one for one in cast.others if one.name not in names]
    writers = [one for one in cast.others if one.name in names] + rng.sample(others, 4)
    for person in writers:
        db.insert("cms_authors", name=person.name, email=person.email, phone=person.phone)
    strict = rng.pick(CATEGORIES)
    for category, person in zip(CATEGORIES, rng.sample(list(cast.others), len(CATEGORIES)), strict=True):
        db.insert("cms_categories", name=category, review=int(category == strict), head=person.name)


def _articles(db: Database, cast: Cast, rng: Rng) -> None:
    places = [(topic, city) for topic in cast.words["topic"] for city in cast.words["city"]]
    texts = phrases()
    titles = [rng.pick(texts["titles"]).format(topic=topic, city=city) for topic, city in rng.sample(places, ARTICLES)]
    authors = [row["id"] for row in db.rows("SELECT id FROM cms_authors ORDER BY id")]
    views = rng.sample(range(40, 9000), ARTICLES)
    tags = [db.insert("cms_tags", name=tag) for tag in texts["tags"]]
    for number, title in enumerate(title[0].upper() + title[1:] for title in titles):
        status = rng.pick(("published",) * 11 + ("draft",) * 5 + ("review",) * 2 + ("scheduled",) * 2)
        age = rng.randint(1, 400)
        day = {"published": cast.day(-age), "scheduled": cast.day(rng.randint(2, 40))}.get(status, "")
        made = (cast.now - timedelta(days=age + 2)).isoformat(timespec="minutes")
        id = db.insert(
            "cms_articles",
            title=title,
            slug=slug_of(title),
            category=rng.pick(CATEGORIES),
            author_id=rng.pick(authors),
            status=status,
            publish_on=day,
            lead=rng.pick(texts["leads"]),
            text=rng.pick(texts["texts"]),
            views=views[number] if status == "published" else 0,
            created_at=made,
        )
        for tag in rng.sample(tags, rng.pick((0, 1, 1, 2))):
            db.insert("cms_taggings", article_id=id, tag_id=tag)


def _comments(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert many comments on few articles, so that waiting comments are among others of the same article."""
    texts = phrases()
    published = [row["id"] for row in db.rows("SELECT id FROM cms_articles WHERE status = 'published' ORDER BY id")]
    for article in rng.sample(published, 20):
        for _ in range(rng.randint(2, 7)):
            at = cast.now - timedelta(minutes=rng.randint(10, 60_000))
            columns = {"author": rng.pick(texts["readers"]), "text": rng.pick(texts["remarks"]), "article_id": article}
            status = rng.pick(("waiting", "waiting", "approved", "approved", "rejected"))
            db.insert("cms_comments", **columns, status=status, created_at=at.isoformat(timespec="minutes"))


def _rest(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert banners, of which no two share a position and a day, and media."""
    words = cast.words
    names = [f"{brand} {thing}" for brand in words["brand"][:4] for thing in rng.sample(["sale", "offers", "week"], 3)]
    rng.shuffle(names)
    for number, place in enumerate(PLACES):
        day = rng.randint(-60, -20)
        for name in names[number * 3 : number * 3 + 3]:
            end = day + rng.randint(6, 18)
            db.insert("cms_banners", name=name, place=place, begins=cast.day(day), ends=cast.day(end))
            day = end + rng.randint(8, 30)
    articles = [row["id"] for row in db.rows("SELECT id FROM cms_articles ORDER BY id")]
    for number, size in enumerate(rng.sample(range(30, 9000), 30), 1):
        kind = rng.pick(("photo", "photo", "video", "chart"))
        name = f"{rng.pick(words['city']).lower()}-{kind}-{number}"
        columns = {"credit": rng.pick(cast.others).name, "article_id": rng.pick(articles)}
        db.insert("cms_media", name=name, kind=kind, kilobytes=size, **columns)
