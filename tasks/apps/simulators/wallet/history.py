"""The transactions in the user's wallet at the beginning of a world."""

from __future__ import annotations

from datetime import datetime, timedelta

from ....people.cast import Cast, Person
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database
from ..mail.app import addresses
from . import ledger

DAYS = 150
"""Length of the history."""
MOVES = 64
REQUESTS = 26
MAILS = 6
BANK = "Town Bank"


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert a wallet with transactions and requests over some months, and messages about money."""
    db.insert("wallets", balance=0, monthly_limit=0)
    for person in cast.others:
        db.insert("wallet_members", email=person.email)
    close = rng.sample(cast.others, 11)  # most of what moves goes to and from a few
    _requests(db, cast, rng, close)
    _moves(db, cast, rng, close)
    _mails(db, cast, rng)
    room = rng.randrange(4_000, 70_000)
    wanted = ledger.spent(db, cast.now) + room
    db.update("wallets", ledger.WALLET, monthly_limit=-(-wanted // ledger.STEP) * ledger.STEP)


def some(rng: Rng, most: int = 90) -> int:
    """Draw an amount in cents, round about half of the time.

    Args:
        rng: random numbers that choose it.
        most: whole units that it may have.
    """
    whole = rng.randint(4, most) * 100
    return rng.pick((whole, whole, whole + 50, whole + rng.randrange(1, 100)))


def note(cast: Cast, rng: Rng) -> str:
    """Draw the purpose of a payment."""
    topic, place = rng.pick(cast.words["topic"]), rng.pick(cast.words["place"])
    thing, other = rng.sample(cast.words["thing"], 2)
    return rng.pick(phrases_beside(__name__)["notes"]).format(topic=topic, place=place, thing=thing, other=other)


def _moves(db: Database, cast: Cast, rng: Rng, close: list[Person]) -> None:
    """Insert payments between people, and deposits such that the balance was never negative."""
    found: list[tuple[str, str, str, int, str, str]] = []
    for at in _times(cast.now, rng, MOVES):
        kind = rng.pick(("sent",) * 11 + ("received",) * 8 + ("deposit",))
        person = rng.pick(close if rng.random() < 0.8 else cast.others)
        if kind == "deposit":
            found.append((at, kind, BANK, rng.randint(1, 4) * 5_000, "", ""))
        else:
            amount = some(rng)
            found.append((at, kind, person.email, -amount if kind == "sent" else amount, note(cast, rng), ""))
    for row in db.rows("SELECT * FROM money_requests WHERE status = 'paid' ORDER BY id"):
        own = row["direction"] == "sent"
        later = datetime.fromisoformat(row["created_at"]) + timedelta(hours=rng.randint(1, 40))
        at = min(later, cast.now - timedelta(minutes=30)).isoformat(timespec="minutes")
        amount, kind = (row["amount"], "received") if own else (-row["amount"], "sent")
        found.append((at, kind, row["person"], amount, row["note"], f"request {row['id']}"))
    found.sort(key=lambda move: move[0])
    lowest = total = 0
    for move in found:
        total += move[3]
        lowest = min(lowest, total)
    begin = (cast.now - timedelta(days=DAYS + 1)).isoformat(timespec="minutes")
    first = -(-(rng.randrange(3_000, 40_000) - lowest) // 1_000) * 1_000
    for at, kind, party, amount, text, reference in [(begin, "deposit", BANK, first, "", ""), *found]:
        ledger.book(db, at, kind, party, amount, note=text, reference=reference)


def _requests(db: Database, cast: Cast, rng: Rng, close: list[Person]) -> None:
    for at in _times(cast.now, rng, REQUESTS):
        direction = rng.pick(("received", "sent"))
        ended = rng.pick(("paid", "declined" if direction == "received" else "withdrawn"))
        status = "open" if rng.random() < 0.6 else ended
        person = rng.pick(close if rng.random() < 0.7 else cast.others)
        columns = {"direction": direction, "person": person.email, "amount": some(rng), "note": note(cast, rng)}
        db.insert("money_requests", **columns, status=status, created_at=at)


def _mails(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert messages that ask for money."""
    for at in _times(cast.now, rng, MAILS):
        person = rng.pick(cast.others)
        topic, thing = rng.pick(cast.words["topic"]), rng.pick(cast.words["thing"])
        ask = rng.pick(phrases_beside(__name__)["asks"])
        asked = ask.format(amount=f"{some(rng) / 100:.2f}", topic=topic, thing=thing)
        db.insert(
            "messages",
            folder=rng.pick(("inbox", "archive")),
            sender=person.email,
            recipients=addresses([cast.user.email]),
            subject=rng.pick(("Money", "What you owe me", "Our bill", "A small thing")),
            body=f"Hello {cast.user.first},\n{asked}\n{person.first}",
            sent_at=at,
            created_at=at,
            unread=int(rng.random() < 0.3),
            starred=0,
        )


def _times(now: datetime, rng: Rng, count: int) -> list[str]:
    times = sorted(now - timedelta(minutes=rng.randint(60, DAYS * 24 * 60)) for _ in range(count))
    return [at.isoformat(timespec="minutes") for at in times]
