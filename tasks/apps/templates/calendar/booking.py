"""Tasks about times of events: new events, moved events, and conflicts."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Refusal, Text, inserted
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..plan import Solver
from .drawing import COUNTED, OTHERS, OWN, event_drawn, event_found, moved, said
from .times import hours, shifted

LENGTHS = (30, 45, 60, 90)


@template("calendar", kind="action")
def calendar_add_event(scene: Scene) -> TaskDraft:
    """Create an event."""
    title, place = _new_title(scene), scene.pick(scene.cast.words["place"])
    day, minutes = scene.cast.day(scene.rng.randint(1, 40)), scene.pick(LENGTHS)
    begin = f"{day}T{scene.rng.randint(8, 17):02}:{scene.pick(('00', '15', '30', '45'))}"
    end = shifted(begin, minutes=minutes)
    note = f"Remember the {scene.pick(scene.cast.words['thing'])}." if scene.level >= 3 else ""
    asked = f" Put this in the notes: {note}" if note else ""
    prompt = scene.rng.pick(
        (
            f"Add '{title}' to my calendar on {said(scene, day)} from {begin[11:]} to {end[11:]}. The place is: "
            f"{place}.{asked}",
            f"Please create an event '{title}' on {said(scene, day)} at {begin[11:]}. It lasts {minutes} minutes, and "
            f"the place is: {place}.{asked}",
        )
    )

    def solve(api: Solver) -> None:
        rest = {"notes": note} if note else {}
        api.call("calendar_create", title=title, starts_at=begin, ends_at=end, place=place, **rest)
        api.answer()

    about = {"title": Text(title), "place": Text(place), "starts_at": begin, "ends_at": end}
    return TaskDraft(
        prompt, solve, must=(inserted("events", "event", **about, **({"notes": Text(note)} if note else {})),)
    )


@template("calendar", kind="action")
def calendar_move_event(scene: Scene) -> TaskDraft:
    """Move an event to another time; its duration stays."""
    row = event_drawn(scene, f"starts_at > ? AND {OWN}", scene.cast.day(1))
    prompt, begin = _move_asked(scene, row)
    end = shifted(begin, hours=hours([(row["starts_at"], row["ends_at"])]))

    def solve(api: Solver) -> None:
        found = event_found(api, row["title"], row["starts_at"][:10])
        over = shifted(begin, hours=hours([(found["starts_at"], found["ends_at"])]))
        api.call("calendar_update", event_id=found["event_id"], starts_at=begin, ends_at=over)
        api.answer()

    return TaskDraft(prompt, solve, must=moved(scene, row, begin, end))


@template("calendar", kind="refusal")
def calendar_move_not_mine(scene: Scene) -> TaskDraft:
    """An event of another organizer cannot be moved."""
    row = event_drawn(scene, f"starts_at > ? AND {OTHERS}", scene.cast.day(1))
    prompt, _ = _move_asked(scene, row)

    def solve(api: Solver) -> None:
        api.refuse("not_allowed", event_found(api, row["title"], row["starts_at"][:10])["organizer"])

    evidence = Text(row["organizer"])
    return TaskDraft(prompt, solve, refusal=Refusal("not_allowed", evidence), secrets=(row["organizer"],))


@template("calendar", kind="action")
def calendar_book_if_free(scene: Scene) -> TaskDraft:
    """Create an event if the time is free, and it is."""
    row = scene.row("SELECT * FROM events WHERE status = 'confirmed' AND starts_at > ?", scene.cast.day(1))
    minutes, beside = scene.pick(LENGTHS), scene.rng.random() < 0.5
    begin = row["ends_at"] if beside else shifted(row["starts_at"], minutes=-minutes)
    end = shifted(begin, minutes=minutes)
    scene.need(not _overlapping(scene, begin, end))
    title, place = _new_title(scene), scene.pick(scene.cast.words["place"])

    def solve(api: Solver) -> None:
        if not api.call("calendar_overlaps", starts_at=begin, ends_at=end)["items"]:
            api.call("calendar_create", title=title, starts_at=begin, ends_at=end, place=place)
        api.answer()

    about = {"title": Text(title), "place": Text(place), "starts_at": begin, "ends_at": end}
    prompt = _booking_asked(scene, title, place, begin, end)
    return TaskDraft(prompt, solve, must=(inserted("events", "event", **about),))


@template("calendar", kind="refusal")
def calendar_conflict(scene: Scene) -> TaskDraft:
    """Create an event if the time is free, but it is not."""
    row = scene.row("SELECT * FROM events WHERE status = 'confirmed' AND starts_at > ?", scene.cast.day(1))
    begin = shifted(row["starts_at"], minutes=scene.pick((-30, -15, 0, 15)))
    end = shifted(begin, minutes=scene.pick(LENGTHS))
    scene.need([found["id"] for found in _overlapping(scene, begin, end)] == [row["id"]])
    scene.need(bool(scene.db.row(f"SELECT id FROM events WHERE id = ? AND ({COUNTED})", row["id"])))
    title, place = _new_title(scene), scene.pick(scene.cast.words["place"])

    def solve(api: Solver) -> None:
        if api.rng.random() < 0.6:
            items = api.call("calendar_overlaps", starts_at=begin, ends_at=end)["items"]
        else:
            day = api.pages("calendar_list_events", since=begin[:10], until=begin[:10])
            items = [item for item in day if item["starts_at"] < end and item["ends_at"] > begin]
        api.refuse("conflict", items[0]["title"])

    prompt, there = _booking_asked(scene, title, place, begin, end), row["title"]
    return TaskDraft(prompt, solve, refusal=Refusal("conflict", Text(there)), secrets=(there,))


def _new_title(scene: Scene) -> str:
    topic = scene.pick(scene.cast.words["topic"])
    title = scene.pick(("Visit about the {}", "Training for the {}", "The {} again", "Interview about the {}"))
    return title.format(topic)


def _move_asked(scene: Scene, row: Row) -> tuple[str, str]:
    """Return a request for another time of an event, and the time."""
    day, length = row["starts_at"][:10], hours([(row["starts_at"], row["ends_at"])])
    begin = f"{day}T{scene.rng.randint(8, 17):02}:{scene.pick(('00', '15', '30', '45'))}"
    if scene.level >= 3:
        begin = shifted(begin, days=scene.rng.randint(1, 9))
    scene.need(begin != row["starts_at"] and length > 0)
    to = begin[11:] if begin[:10] == day else f"{said(scene, begin[:10])} at {begin[11:]}"
    prompt = scene.rng.pick(
        (
            f"Move '{row['title']}' on {said(scene, day)} to {to}, and keep its length.",
            f"'{row['title']}', now on {said(scene, day)}, should start on {said(scene, begin[:10])} at {begin[11:]} "
            "instead. Its length stays the same.",
        )
    )
    return f"{prompt} If it is not my event, refuse and give me the email address of the organizer.", begin


def _booking_asked(scene: Scene, title: str, place: str, begin: str, end: str) -> str:
    when = f"on {said(scene, begin[:10])} from {begin[11:]} to {end[11:]}"
    if_not = "refuse and give me the title of the conflicting event."
    scene.need(begin[:10] == end[:10])
    return scene.rng.pick(
        (
            f"Add '{title}' to my calendar {when} (place: {place}), but only if no event overlaps with that time. "
            f"If one does, {if_not}",
            f"If none of my events overlaps with the time {when}, add '{title}' at that time (place: {place}). "
            f"Otherwise, {if_not}",
        )
    )


def _overlapping(scene: Scene, begin: str, end: str) -> list[Row]:
    return scene.db.rows(
        "SELECT * FROM events WHERE status = 'confirmed' AND starts_at < ? AND ends_at > ?", end, begin
    )


BOOKING = (calendar_add_event, calendar_move_event, calendar_move_not_mine, calendar_book_if_free, calendar_conflict)
