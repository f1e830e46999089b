"""The booking site: rooms are free or taken by the night, steps come in order, and what is too late is refused."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from turnwise.tasks.rows.database import Row
from turnwise.tasks.web.simulators.accounts import account_of
from turnwise.tasks.web.simulators.booking.rooms import STAYS, Dates, cost, dates_of, last_free
from turnwise.tasks.web.simulators.booking.site import Booking
from turnwise.tasks.web.simulators.http import Response
from turnwise.tasks.web.simulators.sites import Sites

from .crawl import ask, opened

GUEST = {"guest_name": "Ada Baker", "email": "ada@post.test", "phone": "555-010-2030", "note": "quiet"}


@pytest.fixture
def sites() -> Sites:
    return opened(Booking, per_page=30)


def post(sites: Sites, path: str, form: dict[str, str]) -> Response:
    return ask(sites, Booking, path, form)


def day(sites: Sites, days: int) -> str:
    return (sites.rules.now.date() + timedelta(days=days)).isoformat()


def mine(sites: Sites, *, late: bool) -> Row:
    """A stay of the user that is booked, and can or cannot be cancelled."""
    me, today = account_of(sites.db, "booking")["id"], day(sites, 0)
    rows = sites.db.rows(f"SELECT * FROM ({STAYS}) WHERE account_id = ? AND status = 'booked'", me)
    return next(row for row in rows if (last_free(row) < today) == late)


def free_room(sites: Sites) -> Row:
    """A room type with one room, which is free."""
    room = sites.db.row(
        """SELECT * FROM booking_rooms WHERE id NOT IN (SELECT room_id FROM booking_stays)
           AND id NOT IN (SELECT room_id FROM booking_closures) AND sleeps = 2"""
    )
    assert room is not None
    sites.db.update("booking_rooms", room["id"], count=1)
    sites.db.forget()
    return {**room, "count": 1}


def booked(sites: Sites, room: Row, arrive: str, leave: str, guests: str = "2") -> str:
    """Go through all steps of a booking, and give where they end."""
    dates = {"place": str(room["place_id"]), "arrive": arrive, "leave": leave, "guests": guests}
    post(sites, "/book/dates", dates)
    post(sites, "/book/room", {"room": str(room["id"])})
    post(sites, "/book/guest", GUEST)
    return post(sites, "/stays", {}).location


def test_a_booking_costs_its_nights_and_takes_the_room(sites: Sites) -> None:
    room, arrive, leave = free_room(sites), day(sites, 5), day(sites, 9)
    assert booked(sites, room, arrive, leave).startswith("/stays/")
    (change,) = sites.changes()
    assert change.after is not None
    nights = [sites.rules.now.date() + timedelta(days=number) for number in range(5, 9)]
    total = sum(room["weekend"] if night.weekday() in (4, 5) else room["price"] for night in nights)
    assert (change.after["total"], change.after["note"], change.after["status"]) == (total, "quiet", "booked")
    assert not booked(sites, room, day(sites, 8), day(sites, 10)), "the last night is taken"
    assert booked(sites, room, leave, day(sites, 10)), "who leaves in the morning makes room for the evening"


def test_no_step_can_be_left_out(sites: Sites) -> None:
    room = free_room(sites)
    for path in ("/book/room", "/book/guest", "/book/check"):
        assert ask(sites, Booking, path).status == 409
    post(sites, "/book/dates", {"place": str(room["place_id"]), "arrive": day(sites, 5), "leave": day(sites, 6)})
    assert post(sites, "/book/guest", GUEST).status == 409
    post(sites, "/book/room", {"room": str(room["id"])})
    assert post(sites, "/stays", {}).status == 409
    assert not sites.changes()


def test_a_room_that_is_too_small_or_of_another_place_cannot_be_chosen(sites: Sites) -> None:
    room = free_room(sites)
    assert not booked(sites, room, day(sites, 5), day(sites, 6), guests="3")
    other = sites.db.value("SELECT id FROM booking_rooms WHERE place_id <> ?", room["place_id"])
    post(sites, "/book/dates", {"place": str(room["place_id"]), "arrive": day(sites, 5), "leave": day(sites, 6)})
    assert post(sites, "/book/room", {"room": str(other)}).location == "/book/room"
    assert not sites.changes()


@pytest.mark.parametrize(
    ("field", "text"),
    [("guest_name", "Ada"), ("email", "ada"), ("email", "a@b@c.test"), ("phone", "call me"), ("note", "x" * 501)],
)
def test_what_is_wrong_of_a_guest_is_said_and_the_rest_is_kept(sites: Sites, field: str, text: str) -> None:
    room = free_room(sites)
    post(sites, "/book/dates", {"place": str(room["place_id"]), "arrive": day(sites, 5), "leave": day(sites, 6)})
    post(sites, "/book/room", {"room": str(room["id"])})
    response = post(sites, "/book/guest", {**GUEST, field: text})
    assert response.status == 400
    assert response.body.count('class="wrong"') == 1
    assert all(f'"{value}"' in response.body for name, value in GUEST.items() if name not in (field, "note"))


def test_a_stay_is_cancelled_and_changed_in_time_only(sites: Sites) -> None:
    late, early = mine(sites, late=True), mine(sites, late=False)
    dates = {"arrive": day(sites, 50), "leave": day(sites, 51), "guests": "1"}
    for path in (f"/stays/{late['id']}/cancel", f"/stays/{late['id']}/change"):
        assert ask(sites, Booking, path).location == f"/stays/{late['id']}"
        assert post(sites, path, dates).location == f"/stays/{late['id']}"
    assert not sites.changes()
    post(sites, f"/stays/{early['id']}/cancel", {})
    assert [dict(change.columns) for change in sites.changes()] == [{"status": "cancelled"}]
    post(sites, f"/stays/{early['id']}/change", dates)
    assert len(sites.changes()[0].columns) == 1, "what is cancelled cannot be moved"


def test_a_stay_can_be_moved_within_its_own_nights(sites: Sites) -> None:
    stay = mine(sites, late=False)
    later = {"arrive": stay["check_in"], "leave": (date.fromisoformat(stay["check_out"]) + timedelta(1)).isoformat()}
    assert post(sites, f"/stays/{stay['id']}/change", {**later, "guests": "1"}).location == f"/stays/{stay['id']}"
    room = sites.db.row("SELECT * FROM booking_rooms WHERE id = ?", stay["room_id"])
    assert room is not None
    (change,) = sites.changes()
    assert change.columns["total"] == cost(room, Dates(later["arrive"], later["leave"], 1).nights)


def test_the_bookings_of_others_are_refused(sites: Sites) -> None:
    me = account_of(sites.db, "booking")["id"]
    other = sites.db.value("SELECT id FROM booking_stays WHERE account_id <> ? AND status = 'booked'", me)
    for path in (f"/stays/{other}", f"/stays/{other}/cancel", f"/stays/{other}/change"):
        assert ask(sites, Booking, path).status == 403
    for path in (f"/stays/{other}/cancel", f"/stays/{other}/change"):
        assert post(sites, path, {}).status == 403
    assert not sites.changes()


def test_only_guests_review_and_only_once(sites: Sites) -> None:
    me = account_of(sites.db, "booking")["id"]
    stayed = sites.db.rows(f"SELECT * FROM ({STAYS}) WHERE account_id = ? AND status = 'stayed'", me)
    places = [row["place_id"] for row in stayed]
    never = sites.db.value(f"SELECT id FROM booking_places WHERE id NOT IN ({', '.join(map(str, places))})")
    for place in (never, places[0], places[0]):
        post(sites, f"/places/{place}/reviews", {"points": "7", "text": "Fine."})
    assert [change.columns["place_id"] for change in sites.changes()] == [places[0]]


@pytest.mark.parametrize(
    ("arrive", "leave", "guests"),
    [
        ("2025-05-14", "2025-05-14", "1"),
        ("2025-05-09", "2025-05-12", "1"),
        ("2025-05-14", "2025-06-14", "1"),
        ("2026-05-14", "2026-05-15", "1"),
        ("2025-05-14", "2025-05-15", "0"),
        ("2025-05-14", "2025-05-15", "9"),
        ("20250514", "2025-05-15", "1"),
        ("2025-02-30", "2025-05-15", "1"),
    ],
)
def test_dates_that_nobody_can_book_are_refused(arrive: str, leave: str, guests: str) -> None:
    assert dates_of(arrive, leave, guests, date(2025, 5, 10))[0] is None
    assert dates_of("2025-05-10", "2025-06-09", "8", date(2025, 5, 10))[0] is not None
