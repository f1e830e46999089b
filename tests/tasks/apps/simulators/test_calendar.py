"""The calendar's calls: listings, what overlaps, who may change what, and what follows from a change."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import ToolError
from turnwise.tasks.apps.simulators.account.app import Account
from turnwise.tasks.apps.simulators.calendar.app import Calendar
from turnwise.tasks.apps.simulators.contacts.app import Contacts
from turnwise.tasks.apps.simulators.situation import Rules, Situation
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.apps.templates.calendar.times import first_free, hours, shifted
from turnwise.tasks.rows.database import Change, Database

ME, ADA, BEN = "me@post.test", "ada@post.test", "ben@post.test"
DAY = "2025-05-14"
Times = list[tuple[int, int]]


@pytest.fixture
def world() -> World:
    db = Database()
    for app in (Account, Contacts, Calendar):
        db.make(app.schema())
    db.insert("profile", first_name="Me", email=ME)
    _event(db, 1, ME, "09:00", "10:00", {ADA: "yes", BEN: "none"})
    _event(db, 2, ADA, "10:00", "11:30", {ME: "none", BEN: "yes"})
    _event(db, 3, ME, "12:00", "12:30", {})
    db.insert("events", **_row(4, ME, "09:30", "10:30") | {"status": "cancelled"})
    db.forget()
    return World(db, Situation(datetime(2025, 5, 13, 8)), Rules(login=False), (Account, Contacts, Calendar))


def _row(number: int, organizer: str, begin: str, end: str) -> dict[str, str]:
    about = {"title": f"Event {number}", "place": "Room 12", "notes": "", "status": "confirmed", "organizer": organizer}
    return {**about, "starts_at": f"{DAY}T{begin}", "ends_at": f"{DAY}T{end}", "created_at": ""}


def _event(db: Database, number: int, organizer: str, begin: str, end: str, guests: dict[str, str]) -> None:
    db.insert("events", id=number, **_row(number, organizer, begin, end))
    for email, response in guests.items():
        db.insert("guests", event_id=number, email=email, response=response)


def _changed(world: World) -> list[str]:
    return [str(change) for change in world.changes()]


def _titles(found: dict[str, list[dict[str, str]]]) -> list[str]:
    return [item["title"] for item in found["items"]]


def test_listings_leave_out_what_is_cancelled(world: World) -> None:
    found = world.call("calendar_list_events", {"since": DAY, "until": DAY})
    assert _titles(found) == ["Event 1", "Event 2", "Event 3"]
    assert [item["my_response"] for item in found["items"]] == ["organizer", "none", "organizer"]
    assert _titles(world.call("calendar_search", {"words": "event"})) == ["Event 1", "Event 2", "Event 3"]
    assert world.call("calendar_get", {"event_id": 4})["status"] == "cancelled"


def test_a_person_takes_part_as_guest_or_organizer(world: World) -> None:
    assert _titles(world.call("calendar_search", {"person": ADA.upper()})) == ["Event 1", "Event 2"]
    assert _titles(world.call("calendar_search", {"person": BEN, "since": DAY, "words": "event 2"})) == ["Event 2"]
    assert _titles(world.call("calendar_search", {"since": "2025-05-15"})) == []


@pytest.mark.parametrize(
    ("begin", "end", "there"),
    [
        ("08:00", "09:00", []),
        ("08:00", "09:01", ["Event 1"]),
        ("09:59", "10:01", ["Event 1", "Event 2"]),
        ("11:30", "12:00", []),
        ("08:00", "18:00", ["Event 1", "Event 2", "Event 3"]),
    ],
)
def test_what_touches_does_not_overlap(world: World, begin: str, end: str, there: list[str]) -> None:
    found = world.call("calendar_overlaps", {"starts_at": f"{DAY}T{begin}", "ends_at": f"{DAY}T{end}"})
    assert _titles(found) == there


def test_a_new_event_may_overlap_and_invites_everybody_once(world: World) -> None:
    when = {"starts_at": f"{DAY} 09:00", "ends_at": f"{DAY}T10:00"}
    made = world.call("calendar_create", {"title": "New", **when, "guests": [ADA, ADA.upper()]})
    assert made["guests"] == [ADA]
    assert [change.kind for change in world.changes()] == ["insert", "insert"]
    got = world.call("calendar_get", {"event_id": made["event_id"]})
    assert (got["starts_at"], got["guests"]) == (f"{DAY}T09:00", [{"email": ADA, "response": "none"}])


def test_a_moved_event_asks_its_guests_again(world: World) -> None:
    world.call("calendar_update", {"event_id": 1, "starts_at": f"{DAY}T09:15"})
    changes: dict[str, Change] = {change.table: change for change in world.changes()}
    assert changes["events"].columns == {"starts_at": f"{DAY}T09:15"}
    assert changes["guests"].columns == {"response": "none"}
    assert changes["guests"].id == 1
    assert len(world.changes()) == 2


def test_another_title_asks_nobody(world: World) -> None:
    world.call("calendar_update", {"event_id": 1, "title": "Other", "ends_at": f"{DAY}T10:00"})
    assert _changed(world) == ["events 1: update of title"]


def test_an_event_is_deleted_with_its_guests_once_it_is_cancelled(world: World) -> None:
    with pytest.raises(ToolError, match="409"):
        world.call("calendar_delete", {"event_id": 1})
    world.call("calendar_cancel", {"event_id": 1})
    assert _changed(world) == ["events 1: update of status"]
    world.call("calendar_delete", {"event_id": 1})
    assert _changed(world) == ["events 1: delete", "guests 1: delete", "guests 2: delete"]


def test_guests_come_and_go(world: World) -> None:
    world.call("calendar_invite", {"event_id": 3, "email": "New@Post.test"})
    world.call("calendar_uninvite", {"event_id": 1, "email": ADA})
    assert [change.kind for change in world.changes()] == ["delete", "insert"]
    world.call("calendar_uninvite", {"event_id": 3, "email": "new@post.test"})
    assert len(world.changes()) == 1


def test_an_answer_may_be_changed(world: World) -> None:
    world.call("calendar_respond", {"event_id": 2, "response": "yes"})
    world.call("calendar_respond", {"event_id": 2, "response": "no"})
    assert [dict(change.columns) for change in world.changes()] == [{"response": "no"}]


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("list_events", {"since": DAY, "until": "2025-05-13"}, "422 until"),
        ("list_events", {"since": "14.5.2025", "until": DAY}, "422 since"),
        ("list_events", {"since": DAY, "until": DAY, "page": 2}, "422 page 2 does not exist"),
        ("search", {"since": "today"}, "422 since"),
        ("overlaps", {"starts_at": DAY, "ends_at": DAY}, "422 starts_at"),
        ("get", {"event_id": 99}, "404"),
        ("create", {"title": "x", "starts_at": f"{DAY}T10:00", "ends_at": f"{DAY}T10:00"}, "422 an event"),
        ("create", {"title": "x", "starts_at": f"{DAY}T10:00", "ends_at": f"{DAY}T11:00", "guests": ["x"]}, "422 'x'"),
        ("create", {"title": "x", "starts_at": f"{DAY}T10:00", "ends_at": f"{DAY}T11:00", "guests": [ME]}, "422 the"),
        ("create", {"title": "x", "starts_at": f"{DAY}T10:00Z", "ends_at": f"{DAY}T11:00"}, "422 starts_at"),
        ("update", {"event_id": 1}, "422 specify"),
        ("update", {"event_id": 1, "starts_at": f"{DAY}T11:00"}, "422 an event"),
        ("update", {"event_id": 2, "title": "x"}, "403 event 2 belongs to ada@post.test"),
        ("update", {"event_id": 4, "title": "x"}, "409 event 4 is cancelled"),
        ("cancel", {"event_id": 2}, "403"),
        ("cancel", {"event_id": 4}, "409"),
        ("delete", {"event_id": 2}, "409"),
        ("invite", {"event_id": 1, "email": ADA.upper()}, "409"),
        ("invite", {"event_id": 1, "email": "nobody"}, "422"),
        ("invite", {"event_id": 1, "email": ME}, "422"),
        ("invite", {"event_id": 2, "email": "x@post.test"}, "403"),
        ("uninvite", {"event_id": 3, "email": ADA}, "404"),
        ("respond", {"event_id": 1, "response": "no"}, "403"),
        ("respond", {"event_id": 99, "response": "no"}, "404"),
    ],
)
def test_what_is_refused_changes_nothing(world: World, name: str, arguments: dict[str, object], error: str) -> None:
    with pytest.raises(ToolError, match=error):
        world.call(f"calendar_{name}", arguments)
    assert world.changes() == ()


def test_a_cancelled_invitation_is_not_answered(world: World) -> None:
    world.db.update("events", 2, status="cancelled")
    with pytest.raises(ToolError, match="409 event 2 is cancelled"):
        world.call("calendar_respond", {"event_id": 2, "response": "no"})


# -- reckoning ------------------------------------------------------------------------------------------------


def _at(minute: int) -> str:
    return shifted(f"{DAY}T00:00", minutes=minute)


EVENTS = st.lists(
    st.tuples(st.integers(0, 1380), st.integers(1, 120)).map(lambda pair: (pair[0], min(1439, sum(pair)))), max_size=8
)


@given(EVENTS, st.integers(0, 700), st.integers(60, 700), st.integers(1, 200))
def test_the_first_free_stretch_is_the_first(events: Times, begin: int, length: int, minutes: int) -> None:
    def fits(at: int) -> bool:
        over = at + minutes
        return over <= begin + length and not any(start < over and end > at for start, end in events)

    wanted = next((at for at in range(begin, begin + length + 1) if fits(at)), None)
    spans = [(_at(start), _at(end)) for start, end in events]
    assert first_free(spans, _at(begin), _at(begin + length), minutes) == (None if wanted is None else _at(wanted))


@pytest.mark.slow
@given(EVENTS)
def test_hours_add_up(events: Times) -> None:
    total = sum((timedelta(minutes=end - start) for start, end in events), timedelta())
    assert hours((_at(start), _at(end)) for start, end in events) == pytest.approx(total.total_seconds() / 3600)
