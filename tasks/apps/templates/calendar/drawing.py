"""Common parts of templates and solutions about events."""

from __future__ import annotations

from datetime import date
from typing import Any

from ....rows.database import Row
from ....rows.expected import Must, Text, updated
from ....rows.scene import Scene
from ..plan import Solver

ME = "(SELECT email FROM profile)"
OWN = f"organizer = {ME}"
OTHERS = f"organizer != {ME}"
COUNTED = f"{OWN} OR id NOT IN (SELECT event_id FROM guests WHERE email = {ME} AND response = 'no')"
"""Return the events that the user has not declined."""


def event_drawn(scene: Scene, where: str, *values: Any) -> Row:
    """Draw an event that is not cancelled and is identified by its title and day."""
    row = scene.row(f"SELECT * FROM events WHERE status = 'confirmed' AND {where}", *values)
    alike = scene.db.value(
        """SELECT count(*) FROM events WHERE status = 'confirmed' AND lower(title) = lower(?)
           AND substr(starts_at, 1, 10) = ?""",
        row["title"],
        row["starts_at"][:10],
    )
    scene.need(alike == 1)
    return row


def events_on(scene: Scene, since: str, until: str, where: str = "1") -> list[Row]:
    """Return the events that start on some days and are not cancelled."""
    return scene.db.rows(
        f"""SELECT * FROM events WHERE status = 'confirmed' AND substr(starts_at, 1, 10) BETWEEN ? AND ?
            AND ({where}) ORDER BY starts_at, id""",
        since,
        until,
    )


def moved(scene: Scene, row: Row, starts_at: str, ends_at: str) -> tuple[Must, ...]:
    """Return the changes that moving an event causes: its guests are invited again."""
    times = {"starts_at": starts_at, "ends_at": ends_at}
    changed = {name: value for name, value in times.items() if value != row[name]}
    guests = scene.db.rows("SELECT id FROM guests WHERE event_id = ? AND response != 'none'", row["id"])
    asked = tuple(updated("guests", guest["id"], f"asked again {guest['id']}", response="none") for guest in guests)
    return (updated("events", row["id"], "moved", **changed), *asked)


def said(scene: Scene, day: str) -> str:
    """Return a date as a user writes it."""
    at = date.fromisoformat(day)
    long = f"{at:%B} {at.day}, {at.year}"
    return day if scene.level <= 2 else scene.rng.pick((day, long, f"{at:%A}, {long}"))


def time_text(at: str) -> Text:
    """Return a point in time as an answer."""
    return Text(at, (at.replace("T", " "), f"{at}:00", f"{at.replace('T', ' ')}:00"))


def clock(at: str) -> Text:
    """Return the time of day of a point in time as an answer."""
    short = at[11:]
    return Text(short, (short.removeprefix("0"), f"{short}:00", *time_text(at).aliases, at))


def event_found(api: Solver, title: str, day: str) -> dict[str, Any]:
    """Return the event with this title on this day."""
    if api.rng.random() < 0.5:
        items = api.pages("calendar_list_events", since=day, until=day)
    else:
        items = api.pages("calendar_search", words=title, since=day, until=day)
    found: dict[str, Any] = next(item for item in items if item["title"] == title)
    return found
