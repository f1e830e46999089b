"""Tasks of the calendar that involve contacts or their messages."""

from __future__ import annotations

import re

from ....rows.expected import Number, Text, deleted, inserted
from ....rows.scene import Scene
from ....rows.stated_text import StatedText
from ....rows.template import TaskDraft, template
from ...simulators.mail.app import addresses
from ..contacts.finding import email_of, full_name
from ..plan import Solver
from .drawing import OWN, event_drawn, event_found, events_on, moved, said, time_text
from .times import hours, shifted

WITH = "organizer = '{0}' OR id IN (SELECT event_id FROM guests WHERE email = '{0}')"
PROPOSED = re.compile(r"meet about the (.+) on (\S+) at (\S+) in (.+)\? It will take (\d+) minutes")
CHANGED = re.compile(r"can we meet at (\d\d:\d\d) instead")


@template("calendar", "contacts", kind="question")
def calendar_hours_with(scene: Scene) -> TaskDraft:
    """Ask for the total duration of events with a contact."""
    person = scene.row("SELECT * FROM contacts")
    first, days = scene.rng.randint(-40, 5), 10 + 6 * scene.level
    since, until = scene.cast.day(first), scene.cast.day(first + days)
    own = scene.level >= 4
    rows = events_on(scene, since, until, f"({WITH.format(person['email'])}) AND ({OWN if own else '1'})")
    scene.need(len(rows) >= min(scene.level, 3))
    name = full_name(person)
    which = "Count only events that I organize" if own else f"Also count events that {person['first_name']} organizes"
    prompt = scene.rng.pick(
        (
            f"How many hours of events do I have with {name} from {said(scene, since)} to {said(scene, until)} "
            f"(inclusive), regardless of anyone's response? {which}, and give me a number such as 37.5.",
            f"Add up the lengths of all events with {name} in my calendar that start from {said(scene, since)} to "
            f"{said(scene, until)} (inclusive), including declined ones. {which}. Answer in hours, such as 37.5.",
        )
    )

    def solve(api: Solver) -> None:
        email = email_of(api, name)
        items = list(api.pages("calendar_search", person=email, since=since, until=until))
        counted = [item for item in items if not own or item["my_response"] == "organizer"]
        api.answer(hours((item["starts_at"], item["ends_at"]) for item in counted))

    return TaskDraft(prompt, solve, answer=Number(hours((row["starts_at"], row["ends_at"]) for row in rows)))


@template("calendar", "contacts", "account", kind="question")
def calendar_next_with(scene: Scene) -> TaskDraft:
    """Ask for the next event with a contact."""
    person = scene.row("SELECT * FROM contacts")
    rows = events_on(scene, scene.cast.day(0), scene.cast.day(60), WITH.format(person["email"]))
    # What begins while the task is being done is neither past nor to come.
    soon = (scene.cast.now.isoformat(timespec="minutes"), shifted(scene.cast.now.isoformat(), hours=12))
    scene.need(not any(soon[0] <= row["starts_at"] <= soon[1] for row in rows))
    coming = [row for row in rows if row["starts_at"] > soon[1]]
    scene.need(len(coming) >= min(scene.level, 2))
    name, begin = full_name(person), coming[0]["starts_at"]
    scene.need(len(coming) == 1 or coming[1]["starts_at"] > begin)
    prompt = scene.rng.pick(
        (
            f"When does the next event with {name} start, regardless of anyone's response? Answer with date and "
            "time, such as 2024-03-09T09:30.",
            f"When does the next event with both {name} and me start, even if one of us declined it? "
            "Give me the date and time in the form 2024-03-09T09:30.",
        )
    )

    def solve(api: Solver) -> None:
        now, email = api.call("account_time")["now"], email_of(api, name)
        items = api.pages("calendar_search", person=email, since=now[:10])
        api.answer(next(item["starts_at"] for item in items if item["starts_at"] > now))

    return TaskDraft(prompt, solve, answer=time_text(begin), secrets=(begin,))


@template("calendar", "contacts", kind="action")
def calendar_invite_people(scene: Scene) -> TaskDraft:
    """Invite people to an event."""
    row = event_drawn(scene, f"starts_at > ? AND {OWN}", scene.cast.day(1))
    others = scene.db.rows(
        "SELECT * FROM contacts WHERE email NOT IN (SELECT email FROM guests WHERE event_id = ?)", row["id"]
    )
    asked = scene.rng.sample(others, (scene.level + 1) // 2)
    names, day = [full_name(one) for one in asked], row["starts_at"][:10]
    said_names = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    prompt = scene.rng.pick(
        (
            f"Invite {said_names} to '{row['title']}' on {said(scene, day)}.",
            f"'{row['title']}' on {said(scene, day)} needs more guests: please invite {said_names}.",
        )
    )

    def solve(api: Solver) -> None:
        number = event_found(api, row["title"], day)["event_id"]
        for name in api.rng.sample(names, len(names)):
            api.call("calendar_invite", event_id=number, email=email_of(api, name))
        api.answer()

    must = tuple(
        inserted("guests", f"invited {one['id']}", event_id=row["id"], email=one["email"], response="none")
        for one in asked
    )
    return TaskDraft(prompt, solve, must=must)


@template("calendar", "contacts", kind="action", held_out=True)
def calendar_invite_group(scene: Scene) -> TaskDraft:
    """Invite a group, of which some members may be guests already."""
    row = event_drawn(scene, f"starts_at > ? AND {OWN}", scene.cast.day(1))
    group = scene.row("SELECT DISTINCT name FROM groups ORDER BY name")["name"]
    members = scene.db.rows(
        "SELECT * FROM contacts WHERE id IN (SELECT contact_id FROM groups WHERE name = ?) ORDER BY id", group
    )
    guests = {guest["email"] for guest in scene.db.rows("SELECT * FROM guests WHERE event_id = ?", row["id"])}
    missing = [member for member in members if member["email"] not in guests]
    scene.need(1 <= len(missing) <= scene.level + 3 and (scene.level < 3 or len(missing) < len(members)))
    day = row["starts_at"][:10]
    prompt = (
        f"Everyone in my contact group '{group}' should come to '{row['title']}' on {said(scene, day)}. Invite those "
        "who have not been invited yet."
    )

    def solve(api: Solver) -> None:
        number = event_found(api, row["title"], day)["event_id"]
        there = {guest["email"] for guest in api.call("calendar_get", event_id=number)["guests"]}
        for item in list(api.pages("contacts_list_group", group=group)):
            if item["email"] not in there:
                api.call("calendar_invite", event_id=number, email=item["email"])
        api.answer()

    must = tuple(
        inserted("guests", f"invited {one['id']}", event_id=row["id"], email=one["email"], response="none")
        for one in missing
    )
    return TaskDraft(prompt, solve, must=must)


@template("calendar", "contacts", kind="mixed")
def calendar_uninvite_person(scene: Scene) -> TaskDraft:
    """Remove a guest from all events of some days, and report how much time that frees."""
    person = scene.row("SELECT * FROM contacts")
    since, until = scene.cast.day(1), scene.cast.day(6 + 4 * scene.level)
    where = f"{OWN} AND id IN (SELECT event_id FROM guests WHERE email = '{person['email']}')"
    rows = events_on(scene, since, until, where)
    scene.need(min(scene.level, 2) <= len(rows) <= 2 + scene.level)
    name = full_name(person)
    prompt = (
        f"{name} is away from {said(scene, since)} to {said(scene, until)} (inclusive). Remove "
        f"{person['first_name']} from the guest lists of all events that I organize on these days, and tell me how "
        "many hours those events take in total, as a number such as 37.5."
    )

    def solve(api: Solver) -> None:
        email = email_of(api, name)
        items = list(api.pages("calendar_search", person=email, since=since, until=until))
        mine = [item for item in items if item["my_response"] == "organizer"]
        for item in mine:
            api.call("calendar_uninvite", event_id=item["event_id"], email=email)
        api.answer(hours((item["starts_at"], item["ends_at"]) for item in mine))

    find = "SELECT id FROM guests WHERE event_id = ? AND email = ?"
    must = tuple(deleted("guests", scene.db.value(find, row["id"], person["email"])) for row in rows)
    answer = Number(hours((row["starts_at"], row["ends_at"]) for row in rows))
    return TaskDraft(prompt, solve, must=must, answer=answer)


@template("calendar", "mail", "contacts", kind="action")
def calendar_from_mail(scene: Scene) -> TaskDraft:
    """Add a meeting to the calendar that a message proposes; a later message may change its time."""
    mail = scene.row("SELECT * FROM messages WHERE body LIKE '%shall we meet about the %' AND folder = 'inbox'")
    person = scene.row("SELECT * FROM contacts WHERE email = ?", mail["sender"])
    read = PROPOSED.search(mail["body"])
    assert read is not None
    topic, day, time, place, minutes = read.groups()
    later = scene.db.rows(
        "SELECT * FROM messages WHERE sender = ? AND body LIKE ?", mail["sender"], f"%about the {topic}: can we meet%"
    )
    scene.need(bool(later) == (scene.level >= 3))
    others = scene.db.value(
        "SELECT count(*) FROM messages WHERE sender = ? AND (instr(body, ?) OR instr(subject, ?))",
        mail["sender"],
        topic,
        topic,
    )
    scene.need(others == 1 + len(later))  # whatever else was written about it might have changed something, too
    begin = f"{day}T{_changed(later[0]['body'], time) if later else time}"
    name, title, guest = full_name(person), f"{topic} with {person['first_name']}", scene.level >= 4
    invite = f" Invite {person['first_name']} to it." if guest else ""
    prompt = (
        f"{name} sent me a message that proposes a meeting about the {topic}. Add it to my calendar under the title "
        f"'{title}', with the day, time, length and place that {person['first_name']} proposed. Note that a later "
        f"message may have changed something.{invite}"
    )

    def solve(api: Solver) -> None:
        email = email_of(api, name)
        items = [item for item in api.pages("mail_search", words=topic, sender=email) if "Meeting" in item["subject"]]
        bodies = [api.call("mail_read", message_id=item["message_id"])["body"] for item in reversed(items)]
        offer = next(found for body in bodies if (found := PROPOSED.search(body)))
        at = f"{offer[2]}T{next((_changed(body, '') for body in bodies if CHANGED.search(body)), offer[3])}"
        end, rest = shifted(at, minutes=int(offer[5])), {"guests": [email]} if guest else {}
        api.call("calendar_create", title=title, starts_at=at, ends_at=end, place=offer[4], **rest)
        api.answer()

    end, number = shifted(begin, minutes=int(minutes)), scene.next_id("events")
    about = {"title": Text(title), "place": Text(place), "starts_at": begin, "ends_at": end}
    invited = inserted("guests", "invited", event_id=number, email=mail["sender"])
    return TaskDraft(prompt, solve, must=(inserted("events", "event", **about), *((invited,) if guest else ())))


@template("calendar", "mail", kind="action")
def calendar_tell_guests(scene: Scene) -> TaskDraft:
    """Move an event, and tell its guests by email."""
    row = event_drawn(scene, f"starts_at > ? AND {OWN}", scene.cast.day(1))
    guests = scene.db.rows("SELECT * FROM guests WHERE event_id = ?", row["id"])
    scene.need(len(guests) >= min(scene.level, 2))
    day = row["starts_at"][:10]
    to = shifted(row["starts_at"], days=scene.rng.randint(1, 7))
    end = shifted(to, hours=hours([(row["starts_at"], row["ends_at"])]))
    subject, text = "A new day", to.replace("T", " ")
    prompt = (
        f"Move '{row['title']}' on {said(scene, day)} to {said(scene, to[:10])}, with the same time of day and length. "
        f"Then send one email to all of its guests with the subject '{subject}'. Its text must include the new start "
        "in the form 2024-03-09 09:30."
    )

    def solve(api: Solver) -> None:
        found = api.call("calendar_get", event_id=event_found(api, row["title"], day)["event_id"])
        begin = f"{to[:10]}T{found['starts_at'][11:]}"
        over = shifted(begin, hours=hours([(found["starts_at"], found["ends_at"])]))
        body = api.rng.pick(("{} starts on {}.", "Hi all, {} has been moved to {}.")).format(
            found["title"], begin.replace("T", " ")
        )
        api.call("calendar_update", event_id=found["event_id"], starts_at=begin, ends_at=over)
        api.call("mail_send", to=[guest["email"] for guest in found["guests"]], subject=subject, body=body)
        api.answer()

    sent = inserted(
        "messages",
        "told",
        folder="sent",
        subject=Text(subject),
        body=StatedText(text),
        recipients=addresses(guest["email"] for guest in guests),
    )
    return TaskDraft(prompt, solve, must=(*moved(scene, row, to, end), sent))


def _changed(body: str, time: str) -> str:
    found = CHANGED.search(body)
    return found[1] if found else time


PEOPLE = (
    calendar_hours_with,
    calendar_next_with,
    calendar_invite_people,
    calendar_invite_group,
    calendar_uninvite_person,
    calendar_from_mail,
    calendar_tell_guests,
)
