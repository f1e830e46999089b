"""Initial messages of the user's mailbox."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ....people.cast import Cast, Person
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database
from .app import addresses

MESSAGES = 110
DRAFTS = 6
LABELS = ("work", "private", "later", "important")


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert messages from and to the user's contacts, over four months, and some drafts."""
    times = sorted(cast.now - timedelta(minutes=rng.randint(10, 120 * 24 * 60)) for _ in range(MESSAGES))
    for at in times:
        other, own = rng.pick(cast.others), rng.random() < 0.2
        subject, body = _text(cast, rng)
        folder = "sent" if own else rng.pick(("inbox", "inbox", "inbox", "archive", "trash"))
        unread = not own and folder == "inbox" and rng.random() < 0.3
        stamp = at.isoformat(timespec="minutes")
        people: list[Person] = [other, rng.pick(cast.others)] if rng.random() < 0.1 else [other]
        reader, writer = (people[0], cast.user) if own else (cast.user, other)
        id = db.insert(
            "messages",
            folder=folder,
            sender=cast.user.email if own else other.email,
            recipients=addresses(person.email for person in people) if own else addresses([cast.user.email]),
            subject=subject,
            body=f"Hello {reader.first},\n{body}\n{writer.first}",
            sent_at=stamp,
            created_at=stamp,
            unread=int(unread),
            starred=int(rng.random() < 0.1),
        )
        if rng.random() < 0.25:
            db.insert("labels", message_id=id, label=rng.pick(LABELS))
    for _ in range(DRAFTS):
        other = rng.pick(cast.others[:8])
        subject, body = _text(cast, rng)
        db.insert(
            "messages",
            folder="drafts",
            sender=cast.user.email,
            recipients=addresses([other.email]),
            subject=subject,
            body=f"Hello {other.first},\n{body}\n{cast.user.first}",
            sent_at="",
            created_at=(cast.now - timedelta(minutes=rng.randint(10, 20 * 24 * 60))).isoformat(timespec="minutes"),
            unread=0,
            starred=0,
        )


def _text(cast: Cast, rng: Rng) -> tuple[str, str]:
    words = {kind: rng.pick(cast.words[kind]) for kind in ("topic", "city", "place")}
    cost = f"{rng.randrange(2000, 90_000) / 100:.2f}"
    phrases = phrases_beside(__name__)
    subject = rng.pick(phrases["subjects"]).format(**words)
    return subject[0].upper() + subject[1:], rng.pick(phrases["bodies"]).format(cost=cost, **words)


def letter(cast: Cast, sender: str, first: str, subject: str, text: str, at: str, *, unread: int = 1) -> dict[str, Any]:
    """Return the columns of a message to the user in the inbox.

    Args:
        cast: the people.
        sender: email address of the author.
        first: their first name, which stands below.
        subject: subject line.
        text: text between the greeting and the signature.
        at: when it was sent, as tables keep it.
        unread: whether it counts as unread.
    """
    return {
        "folder": "inbox",
        "sender": sender,
        "recipients": addresses([cast.user.email]),
        "subject": subject,
        "body": f"Hello {cast.user.first},\n{text}\n{first}",
        "sent_at": at,
        "created_at": at,
        "unread": unread,
        "starred": 0,
    }
