"""Initial rows of the booking site: places with rooms and reviews, and stays."""

from __future__ import annotations

from datetime import date, timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database, Row
from ..accounts import account_of
from .rooms import AMENITIES, Dates, cost

ROOMS = (
    ("Single room", 1, 1.0),
    ("Twin room", 2, 1.5),
    ("Double room", 2, 1.6),
    ("Family room", 4, 2.3),
    ("Suite", 3, 2.9),
)
"""Names of room types, their number of guests, and their relative price."""
CITIES = 5


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert all rows."""
    _places(db, cast, rng.child("places"))
    _stays(db, cast, rng.child("stays"))
    _others(db, cast, rng.child("others"))
    _account(db, rng.child("account"))


def _places(db: Database, cast: Cast, rng: Rng) -> None:
    phrases = phrases_beside(__name__)
    names = rng.sample([f"{first} {last}" for first in phrases["first"] for last in phrases["last"]], CITIES * 6)
    for number, city in enumerate(rng.sample(list(cast.words["city"]), CITIES)):
        for name in names[number * 6 : number * 6 + 6]:
            stars = rng.pick((2, 3, 3, 4, 4, 5))
            amenities = [one for one in AMENITIES if rng.random() < 0.25 + 0.1 * stars]
            place = db.insert(
                "booking_places",
                name=name,
                city=city,
                street=f"{rng.pick(cast.words['street'])} {rng.randint(1, 120)}",
                stars=stars,
                amenities=", ".join(amenities),
                free_days=rng.pick((1, 2, 3, 4, 5, 7, 10)),
            )
            base = rng.randint(28, 60) * (60 + 40 * stars)
            for kind, sleeps, times in sorted(rng.sample(list(ROOMS), 3), key=lambda one: one[2]):
                price = round(base * times / 100) * 100 + rng.pick((0, 50, 90))
                weekend = price + rng.randint(4, 40) * 100
                columns = {"sleeps": sleeps, "price": price, "weekend": weekend, "count": rng.randint(1, 3)}
                room = db.insert("booking_rooms", place_id=place, name=kind, **columns)
                day = cast.now.date() + timedelta(days=rng.randint(0, 12))
                for _ in range(rng.randint(0, 2)):
                    until = day + timedelta(days=rng.randint(2, 6))
                    db.insert("booking_closures", room_id=room, since=day.isoformat(), until=until.isoformat())
                    day = until + timedelta(days=rng.randint(4, 18))
            for _ in range(rng.pick((0, 1, 2, 3, 4, 6))):
                at = cast.now - timedelta(days=rng.randint(1, 400), minutes=rng.randrange(1440))
                db.insert(
                    "booking_reviews",
                    place_id=place,
                    author=f"{rng.pick(cast.words['first'])} {rng.pick('ABCDEFGHKLMNPRST')}.",
                    points=rng.randint(3, 10),
                    text=rng.pick(phrases["reviews"]),
                    created_at=at.isoformat(timespec="minutes"),
                )


def _stays(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert the user's stays: some past, one cancelled, some to come, of which the first is past its deadline."""
    me, today = int(str(account_of(db, "booking")["id"])), cast.now.date()
    rooms = db.rows(
        """SELECT booking_rooms.*, free_days FROM booking_rooms JOIN booking_places ON booking_places.id = place_id
           WHERE sleeps > 1 AND NOT EXISTS (SELECT 1 FROM booking_closures WHERE room_id = booking_rooms.id)
           ORDER BY booking_rooms.id"""
    )
    one_each = {room["place_id"]: room for room in rng.sample(rooms, len(rooms))}
    fresh = list(one_each.values())
    past = sorted(rng.sample(range(20, 360), rng.randint(3, 5)), reverse=True)
    for days in past:
        _stay(db, me, fresh.pop(), today - timedelta(days=days), "stayed", cast, rng)
    strict = max(fresh[:6], key=lambda room: int(room["free_days"]))
    fresh.remove(strict)
    _stay(db, me, strict, today + timedelta(days=rng.randint(1, max(1, strict["free_days"] - 1))), "booked", cast, rng)
    day = 12
    for status in ("booked", "booked", "cancelled", "booked"):
        day += rng.randint(5, 9)
        if fresh:
            _stay(db, me, fresh.pop(), today + timedelta(days=day), status, cast, rng)


def _others(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert stays of other people, at most one per room."""
    people = db.rows("SELECT * FROM accounts WHERE site = 'booking' ORDER BY id")[1:]
    mine = {row["room_id"] for row in db.rows("SELECT room_id FROM booking_stays")}
    rooms = [room for room in db.rows("SELECT * FROM booking_rooms ORDER BY id") if room["id"] not in mine]
    for room in rng.sample(rooms, 24):
        day = cast.now.date() + timedelta(days=rng.randint(-30, 45))
        who = rng.pick(people)
        status = "stayed" if day <= cast.now.date() - timedelta(days=5) else "booked"
        _stay(db, who["id"], room, day, status, cast, rng, who["name"])


def _stay(
    db: Database, who: int, room: Row, first: date, status: str, cast: Cast, rng: Rng, name: str | None = None
) -> None:
    dates = Dates(first.isoformat(), (first + timedelta(days=rng.randint(1, 4))).isoformat(), 1)
    called = name or cast.user.name
    db.insert(
        "booking_stays",
        account_id=who,
        room_id=room["id"],
        check_in=dates.arrive,
        check_out=dates.leave,
        guests=rng.randint(1, room["sleeps"]),
        guest_name=called,
        email=cast.user.email if name is None else f"{called.replace(' ', '.').lower()}@post.test",
        phone=cast.user.phone if name is None else f"555-{rng.randrange(1000):03}-{rng.randrange(10_000):04}",
        note="",
        total=cost(room, dates.nights),
        status=status,
        created_at=(cast.now - timedelta(days=max(1, rng.randint(3, 40)))).isoformat(timespec="minutes"),
    )


def _account(db: Database, rng: Rng) -> None:
    me = account_of(db, "booking")["id"]
    places = db.rows("SELECT * FROM booking_places ORDER BY id")
    for row in rng.sample(places, rng.randint(3, 6)):
        db.insert("booking_saved", account_id=me, place_id=row["id"])
    for city in rng.sample(sorted({row["city"] for row in places}), rng.randint(1, 2)):
        db.insert("booking_alerts", account_id=me, city=city, most=rng.randint(5, 20) * 1000)
