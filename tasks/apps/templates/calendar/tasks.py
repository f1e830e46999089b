"""Tasks of the calendar: looking up events, responding to invitations, and cancelling days."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Must, Number, Text, deleted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..plan import Solver
from .booking import BOOKING
from .drawing import COUNTED, ME, OTHERS, OWN, clock, event_drawn, event_found, events_on, said
from .people import PEOPLE
from .times import first_free, hours


@template("calendar", kind="question")
def calendar_place_of(scene: Scene) -> TaskDraft:
    """Ask for the place of an event."""
    row = event_drawn(scene, "place != 'online'")
    day = row["starts_at"][:10]
    prompt = scene.rng.pick(
        (
            f"Where does '{row['title']}' on {said(scene, day)} take place?",
            f"Check my calendar: what is the place of '{row['title']}' on {said(scene, day)}?",
            f"Where do I have to be for '{row['title']}' on {said(scene, day)}?",
        )
    )

    def solve(api: Solver) -> None:
        api.answer(event_found(api, row["title"], day)["place"])

    return TaskDraft(prompt, solve, answer=Text(row["place"]), secrets=(row["place"],))


@template("calendar", kind="question")
def calendar_first_free(scene: Scene) -> TaskDraft:
    """Ask when a day has room for something."""
    day = scene.cast.day(scene.rng.randint(1, 14))
    strict = scene.level >= 3
    events = events_on(scene, day, day, COUNTED if strict else "1")
    scene.need(len(events) >= min(scene.level, 3))
    begin, end = f"{day}T{scene.pick(('08:00', '08:30', '09:00'))}", f"{day}T{scene.pick(('17:00', '18:00'))}"
    minutes = scene.pick((30, 45, 60, 75, 90, 120))
    free = first_free([(row["starts_at"], row["ends_at"]) for row in events], begin, end, minutes)
    scene.need(free is not None and free != begin)
    assert free is not None
    which = "Ignore invitations that I declined" if strict else "Every event in my calendar counts"
    prompt = scene.rng.pick(
        (
            f"I work from {begin[11:]} to {end[11:]} on {said(scene, day)}. At what time does my first free slot of "
            f"{minutes} minutes start? {which}. Answer with a time such as 07:15.",
            f"Someone needs {minutes} minutes of my time on {said(scene, day)}, between {begin[11:]} and {end[11:]}. "
            f"What is the earliest start time that does not overlap with an event? {which}. "
            "Give me a time such as 07:15.",
        )
    )

    def solve(api: Solver) -> None:
        items = list(api.pages("calendar_list_events", since=day, until=day))
        busy = [item for item in items if not (strict and item["my_response"] == "no")]
        found = first_free([(item["starts_at"], item["ends_at"]) for item in busy], begin, end, minutes)
        assert found is not None
        api.answer(found[11:])

    return TaskDraft(prompt, solve, answer=clock(free))


@template("calendar", kind="question", held_out=True)
def calendar_longest(scene: Scene) -> TaskDraft:
    """Ask for the longest event of some days."""
    since = scene.rng.randint(-30, 10)
    first, last = scene.cast.day(since), scene.cast.day(since + 2 * scene.level)
    rows = sorted(events_on(scene, first, last), key=_length)
    scene.need(len(rows) >= 2 + scene.level and _length(rows[-1]) > _length(rows[-2]))
    title = rows[-1]["title"]
    prompt = (
        f"Which event in my calendar from {said(scene, first)} to {said(scene, last)} (inclusive) is the longest? "
        "Give me its title."
    )

    def solve(api: Solver) -> None:
        api.answer(max(api.pages("calendar_list_events", since=first, until=last), key=_length)["title"])

    return TaskDraft(prompt, solve, answer=Text(title), secrets=(title,))


@template("calendar", kind="mixed")
def calendar_cancel_day(scene: Scene) -> TaskDraft:
    """Cancel the user's own events of a day, and report how much time that frees."""
    day = scene.cast.day(scene.rng.randint(1, 25))
    events = events_on(scene, day, day)
    own = events_on(scene, day, day, OWN)
    scene.need(min(scene.level, 2) <= len(own) <= 2 + scene.level and (scene.level < 3 or len(own) < len(events)))
    freed = hours((row["starts_at"], row["ends_at"]) for row in own)
    prompt = scene.rng.pick(
        (
            f"I will be out sick on {said(scene, day)}. Cancel every event that I organize on that day, and leave the "
            "events of others alone. How many hours is that in total, as a number such as 37.5?",
            f"Cancel all events that I organize on {said(scene, day)}. Then tell me how many hours they would have "
            "taken in total, as a number such as 37.5.",
        )
    )

    def solve(api: Solver) -> None:
        items = list(api.pages("calendar_list_events", since=day, until=day))
        mine = [item for item in items if item["my_response"] == "organizer"]
        for item in mine:
            api.call("calendar_cancel", event_id=item["event_id"])
        api.answer(hours((item["starts_at"], item["ends_at"]) for item in mine))

    must = tuple(updated("events", row["id"], f"cancelled {row['id']}", status="cancelled") for row in own)
    return TaskDraft(prompt, solve, must=must, answer=Number(freed))


@template("calendar", kind="action")
def calendar_respond_to(scene: Scene) -> TaskDraft:
    """Respond to an invitation."""
    row = event_drawn(scene, f"starts_at > ? AND {OTHERS}", scene.cast.day(1))
    guest = scene.row(f"SELECT * FROM guests WHERE event_id = ? AND email = {ME}", row["id"])
    response = scene.pick([one for one in ("yes", "no", "maybe") if one != guest["response"]])
    day = row["starts_at"][:10]
    event = f"'{row['title']}' on {said(scene, day)}"
    prompt = {
        "yes": f"Accept the invitation to {event}.",
        "no": f"I can't attend {event}. Decline the invitation.",
        "maybe": f"Respond to the invitation to {event} with maybe.",
    }[response]

    def solve(api: Solver) -> None:
        found = event_found(api, row["title"], day)
        api.call("calendar_respond", event_id=found["event_id"], response=response)
        api.answer()

    return TaskDraft(prompt, solve, must=(updated("guests", guest["id"], "answered", response=response),))


@template("calendar", kind="mixed")
def calendar_decline_open(scene: Scene) -> TaskDraft:
    """Decline the invitations without a response, and report how much time they would have taken."""
    first = scene.rng.randint(1, 12)
    since, until = scene.cast.day(first), scene.cast.day(first + 3 * scene.level)
    where = f"{OTHERS} AND id IN (SELECT event_id FROM guests WHERE email = {ME} AND response = 'none')"
    rows = events_on(scene, since, until, where)
    scene.need(1 <= len(rows) <= scene.level + 1)
    time = hours((row["starts_at"], row["ends_at"]) for row in rows)
    prompt = (
        f"Decline all invitations to events from {said(scene, since)} to {said(scene, until)} (inclusive) that I have "
        "not answered yet. How many hours would these events have taken in total, as a number such as 37.5?"
    )

    def solve(api: Solver) -> None:
        items = list(api.pages("calendar_list_events", since=since, until=until))
        unanswered = [item for item in items if item["my_response"] == "none"]
        for item in unanswered:
            api.call("calendar_respond", event_id=item["event_id"], response="no")
        api.answer(hours((item["starts_at"], item["ends_at"]) for item in unanswered))

    return TaskDraft(prompt, solve, must=tuple(_declined(scene, row) for row in rows), answer=Number(time))


@template("calendar", kind="action", held_out=True)
def calendar_delete_cancelled(scene: Scene) -> TaskDraft:
    """Delete an event permanently, which must be cancelled first; its guest list is deleted, too."""
    row = event_drawn(scene, f"starts_at > ? AND {OWN}", scene.cast.day(1))
    day = row["starts_at"][:10]
    prompt = (
        f"'{row['title']}' on {said(scene, day)} was a mistake. Don't just cancel it: delete it from my calendar "
        "permanently."
    )

    def solve(api: Solver) -> None:
        number = event_found(api, row["title"], day)["event_id"]
        api.call("calendar_cancel", event_id=number)
        api.call("calendar_delete", event_id=number)
        api.answer()

    guests = scene.db.rows("SELECT id FROM guests WHERE event_id = ?", row["id"])
    return TaskDraft(
        prompt, solve, must=(deleted("events", row["id"]), *(deleted("guests", guest["id"]) for guest in guests))
    )


def _length(row: Row) -> float:
    return hours([(row["starts_at"], row["ends_at"])])


def _declined(scene: Scene, row: Row) -> Must:
    id = scene.db.value(f"SELECT id FROM guests WHERE event_id = ? AND email = {ME}", row["id"])
    return updated("guests", id, f"declined {row['id']}", response="no")


TEMPLATES = (
    calendar_place_of,
    calendar_first_free,
    calendar_longest,
    calendar_cancel_day,
    calendar_respond_to,
    calendar_decline_open,
    calendar_delete_cancelled,
    *BOOKING,
    *PEOPLE,
)
