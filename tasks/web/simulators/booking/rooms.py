"""Queries about places, rooms and nights: what is free, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from ....rows.database import Database, Row
from ..http import number

AMENITIES = ("wifi", "parking", "pool", "sauna", "breakfast", "pets allowed", "gym", "garden")
WEEKEND = (4, 5)
"""Weekdays, from 0 for Monday, whose nights have a price of their own: Friday and Saturday."""
LONGEST = 30
"""Most nights of one booking."""
AHEAD = 300
"""Most days from today until a stay starts."""
MOST_GUESTS = 8
SORTS = {"price": "asked", "score": "score", "stars": "stars", "name": "name"}
"""Sort orders of a search, with their columns."""
PLACES = """SELECT booking_places.*, coalesce(score, 0.0) AS score, coalesce(reviews, 0) AS reviews FROM booking_places
    LEFT JOIN (SELECT place_id, round(avg(points), 1) AS score, count(*) AS reviews FROM booking_reviews
    GROUP BY place_id) AS rated ON rated.place_id = booking_places.id"""
STAYS = """SELECT booking_stays.*, booking_rooms.name AS room, booking_rooms.place_id, booking_places.name AS place,
    booking_places.city, booking_places.free_days FROM booking_stays
    JOIN booking_rooms ON booking_rooms.id = room_id JOIN booking_places ON booking_places.id = place_id"""


@dataclass(frozen=True)
class Dates:
    """Dates and guests of a stay.

    Args:
        arrive: first night, as ``2025-05-14``.
        leave: morning after the last night.
        guests: number of guests.
    """

    arrive: str
    leave: str
    guests: int

    @property
    def nights(self) -> list[date]:
        """Every night, by the day on which it starts."""
        first = date.fromisoformat(self.arrive)
        return [first + timedelta(days=n) for n in range((date.fromisoformat(self.leave) - first).days)]


def day_of(text: str) -> date | None:
    """Parse a day such as ``2025-05-14``; return ``None`` for anything else."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def dates_of(arrive: str, leave: str, guests: str, today: date) -> tuple[Dates | None, str]:
    """Parse the dates and guests in a form. Return them, or an error message.

    Args:
        arrive: text of the first day.
        leave: text of the last day.
        guests: text of the number of guests.
        today: today's date in the world.
    """
    first, last = day_of(arrive), day_of(leave)
    if first is None or last is None:
        return None, "Enter both dates as 2025-05-14."
    if not 1 <= number(guests) <= MOST_GUESTS:
        return None, f"Enter 1 to {MOST_GUESTS} guests."
    if first < today or first > today + timedelta(days=AHEAD):
        return None, f"A stay must start between today and {AHEAD} days from now."
    if not first < last <= first + timedelta(days=LONGEST):
        return None, f"A stay must have between 1 and {LONGEST} nights."
    return Dates(arrive, leave, number(guests)), ""


def cost(room: Row, nights: Iterable[date]) -> int:
    """Return the price of some nights in a room, in hundredths."""
    return sum(room["weekend"] if night.weekday() in WEEKEND else room["price"] for night in nights)


def taken(db: Database, room: int, *, besides: int = 0) -> dict[str, int]:
    """Return the number of occupied rooms of a type, by night.

    Args:
        db: the database.
        room: id of the room type.
        besides: id of a stay to ignore.
    """
    found: dict[str, int] = {}
    rows = db.rows(
        """SELECT check_in, check_out, 1 AS many FROM booking_stays
           WHERE room_id = ?1 AND status = 'booked' AND id <> ?2
           UNION ALL SELECT since, until, 99 FROM booking_closures WHERE room_id = ?1""",
        room,
        besides,
    )
    for row in rows:
        for night in Dates(row["check_in"], row["check_out"], 1).nights:
            found[night.isoformat()] = found.get(night.isoformat(), 0) + row["many"]
    return found


def left(room: Row, night: str, gone: dict[str, int]) -> int:
    """Return the number of free rooms of a type in a night, given the result of ``taken``."""
    return max(0, int(room["count"]) - gone.get(night, 0))


def is_free(db: Database, room: Row, dates: Dates, *, besides: int = 0) -> bool:
    """Return whether a room of this type is free in every night, for the number of guests."""
    if room["sleeps"] < dates.guests:
        return False
    gone = taken(db, room["id"], besides=besides)
    return all(left(room, night.isoformat(), gone) for night in dates.nights)


def rooms_of(db: Database, place: int) -> list[Row]:
    """Return the room types of a place."""
    return db.rows("SELECT * FROM booking_rooms WHERE place_id = ? ORDER BY id", place)


def offers(db: Database, places: Iterable[Row], dates: Dates | None) -> list[Row]:
    """Return places with the price of their cheapest room (``asked``): for the stay, or for one night.

    Args:
        db: the database.
        places: rows of places.
        dates: stay for which a room must be free; ``None`` for the price of one night, free or not.
    """
    found = []
    for place in places:
        rooms = rooms_of(db, place["id"])
        if dates is None:
            asked = [room["price"] for room in rooms]
        else:
            asked = [cost(room, dates.nights) for room in rooms if is_free(db, room, dates)]
        if asked:
            found.append({**place, "asked": min(asked)})
    return found


def last_free(stay: Row) -> str:
    """Return the last day on which a stay can be changed or cancelled."""
    return (date.fromisoformat(stay["check_in"]) - timedelta(days=stay["free_days"])).isoformat()
