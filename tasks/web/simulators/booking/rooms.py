"""Places, rooms and nights as queries: what is free when, and what it costs."""

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
"""Nights that one booking may have."""
AHEAD = 300
"""Days from today on which a stay may begin."""
MOST_GUESTS = 8
SORTS = {"price": "asked", "score": "score", "stars": "stars", "name": "name"}
"""What a search can be ordered by, and the column."""
PLACES = """SELECT booking_places.*, coalesce(score, 0.0) AS score, coalesce(reviews, 0) AS reviews FROM booking_places
    LEFT JOIN (SELECT place_id, round(avg(points), 1) AS score, count(*) AS reviews FROM booking_reviews
    GROUP BY place_id) AS rated ON rated.place_id = booking_places.id"""
STAYS = """SELECT booking_stays.*, booking_rooms.name AS room, booking_rooms.place_id, booking_places.name AS place,
    booking_places.city, booking_places.free_days FROM booking_stays
    JOIN booking_rooms ON booking_rooms.id = room_id JOIN booking_places ON booking_places.id = place_id"""


@dataclass(frozen=True)
class Dates:
    """From when to when, and how many.

    Args:
        arrive: first night, as ``2025-05-14``.
        leave: the morning after the last night.
        guests: how many people.
    """

    arrive: str
    leave: str
    guests: int

    @property
    def nights(self) -> list[date]:
        """Every night, by the day on which it begins."""
        first = date.fromisoformat(self.arrive)
        return [first + timedelta(days=n) for n in range((date.fromisoformat(self.leave) - first).days)]


def day_of(text: str) -> date | None:
    """The day that a text such as ``2025-05-14`` names."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def dates_of(arrive: str, leave: str, guests: str, today: date) -> tuple[Dates | None, str]:
    """What somebody entered, or what is wrong with it.

    Args:
        arrive: first day, as it was entered.
        leave: last day, as it was entered.
        guests: how many, as it was entered.
        today: the world's.
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
    """What some nights in a room cost, in hundredths."""
    return sum(room["weekend"] if night.weekday() in WEEKEND else room["price"] for night in nights)


def taken(db: Database, room: int, *, besides: int = 0) -> dict[str, int]:
    """How many rooms of a type are taken, by night.

    Args:
        db: where to look.
        room: number of the type.
        besides: number of a stay that does not count.
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
    """How many rooms of a type are left in a night, with what ``taken`` gives."""
    return max(0, int(room["count"]) - gone.get(night, 0))


def is_free(db: Database, room: Row, dates: Dates, *, besides: int = 0) -> bool:
    """Whether a room of this type is left in every night, for so many guests."""
    if room["sleeps"] < dates.guests:
        return False
    gone = taken(db, room["id"], besides=besides)
    return all(left(room, night.isoformat(), gone) for night in dates.nights)


def rooms_of(db: Database, place: int) -> list[Row]:
    """The room types of a place."""
    return db.rows("SELECT * FROM booking_rooms WHERE place_id = ? ORDER BY id", place)


def offers(db: Database, places: Iterable[Row], dates: Dates | None) -> list[Row]:
    """Places with what the cheapest room there costs (``asked``): for the stay, or for a night.

    Args:
        db: where to look.
        places: rows.
        dates: only what is free then, for all guests; ``None``: nothing is asked for yet.
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
    """The last day on which a stay can be changed or cancelled."""
    return (date.fromisoformat(stay["check_in"]) - timedelta(days=stay["free_days"])).isoformat()
