"""How somebody goes about on the booking site: parts of solutions that several tasks share."""

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
    """Look for what is free, the cheapest first."""
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
    """Enter from when to when, and how many."""
    walk.fill(walk.word("arrive"), dates.arrive)
    walk.fill(walk.word("leave"), dates.leave)
    walk.fill(walk.word("guests"), str(dates.guests))


def book(walk: Walk, dates: Dates, room: str, guest: dict[str, str]) -> None:
    """Book a room, from the page of a place on.

    Args:
        walk: at the page of the place.
        dates: of the stay.
        room: type of it; empty for the cheapest that there is.
        guest: what is asked about who comes, by column.
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
    """Dates and guests in words."""
    people = "1 person" if dates.guests == 1 else f"{dates.guests} people"
    return f"from {dates.arrive} to {dates.leave} for {people}"


def some_dates(scene: Scene, guests: int | None = None) -> Dates:
    """Some nights that are yet to come."""
    first = scene.rng.randint(2, 40)
    nights = scene.rng.randint(2, 5)
    assert first < AHEAD
    return Dates(scene.cast.day(first), scene.cast.day(first + nights), guests or scene.rng.randint(1, 3))


def booked(db: Database, room: Row, dates: Dates, guest: dict[str, str]) -> Must:
    """The new row that a booking makes."""
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
    """Who comes, as the steps of a booking ask for it: somebody whom the user knows."""
    person = scene.pick(scene.cast.others)
    wish = scene.pick(("", "a quiet room", "a room on the ground floor", "we will arrive after nine"))
    return {"guest_name": person.name, "email": person.email, "phone": person.phone, "note": wish}


def told(guest: dict[str, str]) -> str:
    """The same in words."""
    wish = f", with this special request: {guest['note']}" if guest["note"] else ", with no special request"
    return f"for {guest['guest_name']} ({guest['email']}, phone {guest['phone']}){wish}"


def mine(scene: Scene, status: str = "booked") -> list[Row]:
    """The user's stays with this status, of which no two are at one place."""
    me = account_of(scene.db, "booking")["id"]
    rows = scene.db.rows(f"SELECT * FROM ({STAYS}) WHERE account_id = ? AND status = ? ORDER BY check_in", me, status)
    places = [row["place_id"] for row in rows]
    return [row for row in rows if places.count(row["place_id"]) == 1]


def moved(stay: Row, days: int) -> Dates:
    """The dates of a stay so many days later."""
    dates = Dates(stay["check_in"], stay["check_out"], stay["guests"])
    first = dates.nights[0] + timedelta(days=days)
    return Dates(first.isoformat(), (first + timedelta(days=len(dates.nights))).isoformat(), dates.guests)
