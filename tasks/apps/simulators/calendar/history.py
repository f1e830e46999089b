"""Initial rows of the user's calendar, and messages that propose meetings."""

from __future__ import annotations

from datetime import datetime, timedelta

from ....people.cast import Cast, Person
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database
from ..mail.history import letter

SINGLES, SERIES, FULL_DAYS, PROPOSALS = 46, 3, 4, 8
LENGTHS = (15, 30, 30, 45, 60, 60, 75, 90, 120)
"""Durations of events, in minutes."""
PROPOSAL = "shall we meet about the {topic} on {day} at {time} in {place}? It will take {minutes} minutes."
LATER = "about the {topic}: can we meet at {time} instead? The day, place and length stay the same."


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert single events, weekly ones and some all-day ones, from six weeks ago to four weeks from now."""
    for _ in range(SINGLES):
        _single(db, cast, rng, rng.randint(-42, 28))
    for title in rng.sample(phrases_beside(__name__)["weekly"], SERIES):
        _weekly(db, cast, rng, title)
    for day in rng.sample(range(1, 15), FULL_DAYS):
        for _ in range(rng.randint(3, 5)):
            _single(db, cast, rng, day)
    pairs = {(rng.pick(cast.others), rng.pick(cast.words["topic"])): None for _ in range(PROPOSALS)}
    for person, topic in pairs:
        _proposal(db, cast, rng, person, topic)


def _single(db: Database, cast: Cast, rng: Rng, days: int) -> None:
    guests = rng.sample(cast.others, rng.pick((0, 0, 1, 1, 2, 3)))
    kind = "with_one_guest" if len(guests) == 1 and rng.random() < 0.5 else "titles"
    title = rng.pick(phrases_beside(__name__)[kind])
    words = {"topic": rng.pick(cast.words["topic"]), "first": guests[0].first if guests else ""}
    begin = _at(cast, days, rng.randrange(8 * 4, 17 * 4))
    organizer = cast.user if not guests or rng.random() < 0.6 else guests.pop(0)
    _event(db, cast, rng, _capital(title.format(**words)), begin, rng.pick(LENGTHS), organizer, guests)


def _weekly(db: Database, cast: Cast, rng: Rng, title: str) -> None:
    named = _capital(title.format(topic=rng.pick(cast.words["topic"])))
    guests = rng.sample(cast.others, rng.randint(1, 3))
    quarter, length, first = rng.randrange(8 * 4, 16 * 4), rng.pick(LENGTHS), rng.randint(-28, -22)
    for week in range(7):  # now and then at another time
        other = rng.pick((-4, -2, 2, 4)) if rng.random() < 0.15 else 0
        _event(db, cast, rng, named, _at(cast, first + 7 * week, quarter + other), length, cast.user, guests)


def _event(
    db: Database,
    cast: Cast,
    rng: Rng,
    title: str,
    begin: datetime,
    minutes: int,
    organizer: Person,
    guests: list[Person],
) -> None:
    answers = ("yes", "yes", "no", "maybe", "none")
    id = db.insert(
        "events",
        title=title,
        place=rng.pick((*cast.words["place"], "online")),
        starts_at=begin.isoformat(timespec="minutes"),
        ends_at=(begin + timedelta(minutes=minutes)).isoformat(timespec="minutes"),
        organizer=organizer.email,
        notes=rng.pick(phrases_beside(__name__)["notes"]).format(topic=rng.pick(cast.words["topic"])),
        status="cancelled" if rng.random() < 0.08 else "confirmed",
        created_at=(min(begin, cast.now) - timedelta(days=rng.randint(1, 20))).isoformat(timespec="minutes"),
    )
    if organizer is not cast.user:
        open = begin > cast.now and rng.random() < 0.6
        db.insert("guests", event_id=id, email=cast.user.email, response="none" if open else rng.pick(answers[:4]))
    for guest in guests:
        db.insert("guests", event_id=id, email=guest.email, response=rng.pick(answers))


def _proposal(db: Database, cast: Cast, rng: Rng, person: Person, topic: str) -> None:
    sent = cast.now - timedelta(minutes=rng.randint(2 * 24 * 60, 8 * 24 * 60))
    quarter, place = rng.randrange(8 * 4, 17 * 4), rng.pick(cast.words["place"])
    begin = _at(cast, rng.randint(2, 20), quarter)
    words = {"topic": topic, "day": begin.date().isoformat(), "place": place, "minutes": rng.pick(LENGTHS)}
    subject = f"Meeting about the {topic}"
    write_mail(db, cast, person, subject, PROPOSAL.format(time=f"{begin:%H:%M}", **words), sent)
    if rng.random() < 0.5:
        other = begin + timedelta(minutes=rng.pick((-60, -30, -15, 15, 30, 60, 90)))
        after = sent + timedelta(minutes=rng.randint(30, 24 * 60))
        write_mail(db, cast, person, f"Re: {subject}", LATER.format(topic=topic, time=f"{other:%H:%M}"), after)


def write_mail(db: Database, cast: Cast, sender: Person, subject: str, text: str, at: datetime) -> int:
    """Insert a message to the user into the inbox, and return its id.

    Args:
        db: the world's rows.
        cast: the people.
        sender: author of the message.
        subject: subject line.
        text: text between the greeting and the signature.
        at: when it was sent.
    """
    stamp = at.isoformat(timespec="minutes")
    return db.insert("messages", **letter(cast, sender.email, sender.first, subject, text, stamp, unread=0))


def _at(cast: Cast, days: int, quarter: int) -> datetime:
    """Return a time some days from now, given in quarters of an hour since midnight."""
    midnight = datetime.combine(cast.now.date(), datetime.min.time())
    return midnight + timedelta(days=days, minutes=15 * quarter)


def _capital(title: str) -> str:
    return title[0].upper() + title[1:]
