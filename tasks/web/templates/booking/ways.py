"""Parts of solutions on the booking site that several tasks share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from ....rows.database import Database, Row
from ....rows.expected import Must, Text, inserted
from ....rows.scene import Scene
from ...simulators.accounts import account_of
from ...simulators.booking.rooms import AHEAD, STAYS, Dates, cost
from ..walk import Walk


def open_place(walk: Walk, name: str) -> None:
    """Find a place by its name."""
    walk.goto("booking")
    walk.click(walk.word("places"))
    walk.fill(walk.word("words"), name)
    walk.click(walk.word("search"))
    walk.click(name, within=walk.entry(name))


def search(walk: Walk, city: str, dates: Dates, stars: int = 0, amenities: Iterable[str] = ()) -> None:
    """Search for free places, the cheapest first."""
    walk.goto("booking")
    walk.click(walk.word("places"))
    walk.choose(walk.word("city"), city)
    fill_dates(walk, dates)
    if stars:
        walk.choose(walk.word("min_stars"), str(stars))
    for one in amenities:
        walk.check(one)
    walk.choose(walk.word("sort"), walk.word("price"))
    walk.click(walk.word("search"))


def fill_dates(walk: Walk, dates: Dates) -> None:
    """Enter dates and guests."""
    walk.fill(walk.word("arrive"), dates.arrive)
    walk.fill(walk.word("leave"), dates.leave)
    walk.fill(walk.word("guests"), str(dates.guests))


def book(walk: Walk, dates: Dates, room: str, guest: dict[str, str]) -> None:
    """Book a room, starting on the page of a place.

    Args:
        walk: walk at the page of the place.
        dates: dates of the stay.
        room: type of the room; empty for the cheapest one.
        guest: details of the guest, by column.
    """
    fill_dates(walk, dates)
    walk.click(walk.word("book"))
    if not room:
        room = min(walk.entries(), key=lambda one: float(one[walk.word("total")])).name
    walk.choose(walk.word("room"), room)
    walk.click(walk.word("continue"))
    for name, text in guest.items():
        if text:
            walk.fill(walk.word(name), text)
    walk.click(walk.word("continue"))
    walk.click(walk.word("place_booking"))


def open_stay(walk: Walk, place: str, status: str = "booked") -> None:
    """Find the member's stay at a place."""
    walk.goto("booking")
    walk.click(walk.word("stays"))
    entry = walk.seek(lambda one: one[walk.word("place")] == place and one[walk.word("status")] == status)
    walk.click(entry.name, within=entry)


def said(dates: Dates) -> str:
    """Return dates and guests in words."""
    people = "1 person" if dates.guests == 1 else f"{dates.guests} people"
    return f"from {dates.arrive} to {dates.leave} for {people}"


def some_dates(scene: Scene, guests: int | None = None) -> Dates:
    """Draw some nights in the future."""
    first = scene.rng.randint(2, 40)
    nights = scene.rng.randint(2, 5)
    assert first < AHEAD
    return Dates(scene.cast.day(first), scene.cast.day(first + nights), guests or scene.rng.randint(1, 3))


def booked(db: Database, room: Row, dates: Dates, guest: dict[str, str]) -> Must:
    """Return the row that a booking inserts."""
    return inserted(
        "booking_stays",
        "booking",
        account_id=account_of(db, "booking")["id"],
        room_id=room["id"],
        check_in=dates.arrive,
        check_out=dates.leave,
        guests=dates.guests,
        **{name: Text(text) for name, text in guest.items()},
        total=cost(room, dates.nights),
        status="booked",
    )


def somebody(scene: Scene) -> dict[str, str]:
    """Draw a guest whom the user knows, with the details that a booking requires."""
    person = scene.pick(scene.cast.others)
    wish = scene.pick(("", "a quiet room", "a room on the ground floor", "we will arrive after nine"))
    return {"guest_name": person.name, "email": person.email, "phone": person.phone, "note": wish}


def guest_details(guest: dict[str, str]) -> str:
    """Return the details of a guest in words."""
    wish = f", with this special request: {guest['note']}" if guest["note"] else ", with no special request"
    return f"for {guest['guest_name']} ({guest['email']}, phone {guest['phone']}){wish}"


def mine(scene: Scene, status: str = "booked") -> list[Row]:
    """Return the user's stays with this status, of which no two are at the same place."""
    me = account_of(scene.db, "booking")["id"]
    rows = scene.db.rows(f"SELECT * FROM ({STAYS}) WHERE account_id = ? AND status = ? ORDER BY check_in", me, status)
    places = [row["place_id"] for row in rows]
    return [row for row in rows if places.count(row["place_id"]) == 1]


def moved(stay: Row, days: int) -> Dates:
    """Return the dates of a stay moved by a number of days."""
    dates = Dates(stay["check_in"], stay["check_out"], stay["guests"])
    first = dates.nights[0] + timedelta(days=days)
    return Dates(first.isoformat(), (first + timedelta(days=len(dates.nights))).isoformat(), dates.guests)
