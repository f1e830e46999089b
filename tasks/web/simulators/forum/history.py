"""Initial rows of the forum: members, boards with moderators, threads and posts."""

from __future__ import annotations

from datetime import datetime, timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database, Row
from ..accounts import account_of, join
from .rows import REASONS

BOARDS = (
    ("Cooking", "kitchen", "Pots, pans and what goes in them"),
    ("Gardening", "garden", "Plants, beds and tools"),
    ("Desk and office", "office", "Everything for your desk"),
    ("Sports", "sports", "Training, gear and matches"),
    ("At home", "home", "Rooms and how to make them nicer"),
    ("Traveling", "travel", "Where to go, how, and with what"),
)
"""Name, kind of goods, and description of each board."""
MEMBERS = 14


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert all rows."""
    members = _members(db, cast, rng.child("members"))
    _boards(db, members, rng.child("boards"))
    _threads(db, cast, members, rng.child("threads"))
    _liked_and_followed(db, members, rng.child("liked"))
    _reports(db, cast, members, rng.child("reports"))


def _members(db: Database, cast: Cast, rng: Rng) -> list[Row]:
    members = join(db, cast, rng, "forum", MEMBERS)
    days = rng.sample(range(520, 2500), len(members))
    things = cast.words["thing"]
    for row, age in zip(members, days, strict=True):
        motto = " and ".join(rng.sample(list(things), 2)).capitalize()
        joined = cast.day(-age)
        db.insert("forum_profiles", account_id=row["id"], town=rng.pick(cast.words["city"]), motto=motto, joined=joined)
    return members


def _boards(db: Database, members: list[Row], rng: Rng) -> None:
    mine = set(rng.sample(range(len(BOARDS)), 2))
    others = rng.sample(members[1:], len(BOARDS))
    for number, (name, _, about) in enumerate(BOARDS):
        moderator = members[0] if number in mine else others[number]
        db.insert("forum_boards", name=name, about=about, moderator_id=moderator["id"])


def _threads(db: Database, cast: Cast, members: list[Row], rng: Rng) -> None:
    taken: set[str] = set()
    threads = []
    for board, (_, kind, _) in enumerate(BOARDS, 1):
        for _ in range(6):
            while (title := _title(cast, kind, rng)) in taken:
                pass
            taken.add(title)
            threads.append((cast.now - timedelta(minutes=rng.randrange(3 * 1440, 500 * 1440)), board, title))
    posts: list[tuple[datetime, int, int, str]] = []
    for number, (at, board, title) in enumerate(sorted(threads), 1):
        authors = [rng.pick(members)["id"]]
        locked, pinned = int(rng.random() < 0.2), int(rng.random() < 0.15)
        columns = {"board_id": board, "account_id": authors[0], "title": title, "pinned": pinned, "locked": locked}
        db.insert("forum_threads", **columns, created_at=_stamp(at))
        for later in range(rng.pick((0, 1, 1, 2, 2, 3, 4, 6, 9))):
            authors.append(rng.pick([row["id"] for row in members if row["id"] != authors[-1]]))
            posts.append((at + timedelta(hours=later * 5 + rng.randint(1, 4)), number, authors[-1], ""))
        posts.append((at, number, authors[0], ""))
    said: set[str] = set()
    for at, thread, author, _ in sorted(posts):
        while (text := _text(cast, rng)) in said:
            pass
        said.add(text)
        columns = {"thread_id": thread, "account_id": author, "text": text, "hidden": int(rng.random() < 0.03)}
        db.insert("forum_posts", **columns, created_at=_stamp(at))


def _title(cast: Cast, kind: str, rng: Rng) -> str:
    thing, brand = rng.pick(cast.words[f"goods_{kind}"]), rng.pick(cast.words["brand"])
    return rng.pick(phrases_beside(__name__)["titles"]).format(brand=brand, thing=thing)


def _text(cast: Cast, rng: Rng) -> str:
    words = cast.words
    return " ".join(
        one.format(
            price=f"{rng.randint(8, 240)} euros",
            city=rng.pick(words["city"]),
            brand=rng.pick(words["brand"]),
            other=rng.pick(words["thing"]),
            years=rng.randint(2, 19),
        )
        for one in rng.sample(phrases_beside(__name__)["texts"], rng.pick((1, 2, 2)))
    )


def _liked_and_followed(db: Database, members: list[Row], rng: Rng) -> None:
    ids = [row["id"] for row in members]
    for post in db.rows("SELECT id, account_id FROM forum_posts ORDER BY id"):
        for one in rng.sample([id for id in ids if id != post["account_id"]], rng.pick((0, 0, 0, 1, 1, 2, 4))):
            db.insert("forum_likes", post_id=post["id"], account_id=one)
    threads = [row["id"] for row in db.rows("SELECT id FROM forum_threads ORDER BY id")]
    for one in ids:
        for thread in rng.sample(threads, rng.randint(4, 8) if one == ids[0] else rng.randint(0, 4)):
            db.insert("forum_follows", thread_id=thread, account_id=one)


def _reports(db: Database, cast: Cast, members: list[Row], rng: Rng) -> None:
    me = account_of(db, "forum")["id"]
    sql = """SELECT forum_posts.*, moderator_id FROM forum_posts JOIN forum_threads ON forum_threads.id = thread_id
        JOIN forum_boards ON forum_boards.id = board_id WHERE NOT hidden AND forum_posts.account_id <> ?"""
    posts = db.rows(f"{sql} ORDER BY forum_posts.id", me)
    mine = [post for post in posts if post["moderator_id"] == me]
    chosen = [*rng.sample(mine, min(len(mine), 11)), *rng.sample([one for one in posts if one not in mine], 9)]
    rng.shuffle(chosen)
    for post in chosen:
        by = rng.pick([row["id"] for row in members[1:] if row["id"] != post["account_id"]])
        columns = {"reason": rng.pick(REASONS), "remark": rng.pick(phrases_beside(__name__)["remarks"])}
        state = "open" if rng.random() < 0.7 else "dismissed"
        at = cast.now - timedelta(minutes=rng.randrange(60, 3 * 1440))
        db.insert("forum_reports", post_id=post["id"], account_id=by, **columns, state=state, created_at=_stamp(at))


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="minutes")
