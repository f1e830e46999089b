"""Initial rows of the user's to-do lists, and messages that ask the user for something."""

from __future__ import annotations

from datetime import timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database
from ..calendar.history import write_mail

LISTS = (("Groceries", "Shopping"), ("Work", "Office"), ("Home", "House"), ("Travel", "Trips"), ("Errands", "Someday"))
"""Alternative names of each list."""
SIMILAR = ("{} later", "{} for the weekend", "{} (old)")
"""Names of a last list, similar to another one's; it has few items."""
ITEMS, REQUESTS = 90, 8
REQUEST = "please send me the {topic} by {day}."
"""Text of a message with a deadline."""


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert lists and items, done and open, with and without due dates, some twice; and messages with requests."""
    names = [rng.pick(pair) for pair in LISTS]
    names.append(rng.pick(SIMILAR).format(rng.pick(names)))
    lists = [db.insert("todo_lists", name=name, created_at=cast.day(-rng.randint(100, 300))) for name in names]
    written: list[str] = []
    for _ in range(ITEMS):
        where = rng.randrange(len(LISTS)) if rng.random() < 0.94 else len(LISTS)
        again = len(written) > 20 and rng.random() < 0.12
        title = rng.pick(written) if again else _title(cast, rng, groceries=where == 0)
        written.append(title)
        days = rng.randint(-30, 30)
        words = {kind: rng.pick(cast.words[kind]) for kind in ("topic", "place")}
        db.insert(
            "todo_items",
            list_id=lists[where],
            title=title,
            notes=rng.pick(phrases_beside(__name__)["notes"]).format(**words),
            due="" if rng.random() < 0.25 else cast.day(days),
            priority=rng.pick(("low", "normal", "normal", "high")),
            done=int(rng.random() < (0.6 if days < 0 else 0.15)),
            created_at=cast.day(min(days, 0) - rng.randint(1, 20)),
        )
    pairs = {(rng.pick(cast.others), rng.pick(cast.words["topic"])): None for _ in range(REQUESTS)}
    for person, topic in pairs:
        text = REQUEST.format(topic=topic, day=cast.day(rng.randint(2, 25)))
        at = cast.now - timedelta(minutes=rng.randint(20, 8 * 24 * 60))
        write_mail(db, cast, person, f"Please: the {topic}", text, at)


def _title(cast: Cast, rng: Rng, *, groceries: bool) -> str:
    if groceries:
        return f"Buy {rng.pick(cast.words['thing'])}"
    words = {kind: rng.pick(cast.words[kind]) for kind in ("topic", "place", "city")}
    return rng.pick(phrases_beside(__name__)["titles"]).format(first=rng.pick(cast.others).first, **words)
