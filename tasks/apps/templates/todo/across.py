"""To-do tasks that come from messages, events and people."""

from __future__ import annotations

import re
from datetime import date

from ....rows.expected import Text, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.mail.app import addresses
from ..calendar.drawing import OWN, events_on, said
from ..contacts.finding import email_of, full_name
from ..plan import Solver
from .drawing import Lines, item_drawn, item_found, items_where, list_number

ASKED = re.compile(r"please send me the (.+) by (\d{4}-\d\d-\d\d)\.")


@template("todo", "mail", "contacts", kind="action")
def todo_from_mail(scene: Scene) -> TaskDraft:
    """Create an item from a message that asks for something."""
    mail = scene.row("SELECT * FROM messages WHERE body LIKE '%please send me the %' AND folder = 'inbox'")
    person = scene.row("SELECT * FROM contacts WHERE email = ?", mail["sender"])
    read = ASKED.search(mail["body"])
    assert read is not None
    topic, due = read.groups()
    where, name = scene.row("SELECT * FROM todo_lists"), full_name(person)
    title = f"Send the {topic} to {person['first_name']}"
    scene.need(not items_where(scene, "title = ?", title))
    high = " with high priority" if scene.level >= 3 else ""
    prompt = (
        f"{name} emailed me and asked me to send the {topic}. Put '{title}' on my list '{where['name']}'{high}, due "
        "on the date given in the message."
    )

    def solve(api: Solver) -> None:
        email = email_of(api, name)
        for item in api.pages("mail_search", words=topic, sender=email):
            found = ASKED.search(api.call("mail_read", message_id=item["message_id"])["body"])
            if found and found[1] == topic:
                break
        assert found is not None
        rest = {"priority": "high"} if high else {}
        api.call("todo_add", list_id=list_number(api, where["name"]), title=title, due=found[2], **rest)
        api.answer()

    about = {"title": Text(title), "due": due, "priority": "high" if high else "normal"}
    return TaskDraft(prompt, solve, must=(inserted("todo_items", "item", list_id=where["id"], done=0, **about),))


@template("todo", "mail", "contacts", kind="action")
def todo_mail_list(scene: Scene) -> TaskDraft:
    """Email the open tasks of a list to a contact."""
    row = scene.row("SELECT * FROM todo_lists")
    high = scene.level <= 2
    where = "list_id = ? AND done = 0" + (" AND priority = 'high'" if high else "")
    titles = [item["title"] for item in items_where(scene, where, row["id"])]
    scene.need(1 <= len(titles) <= 6 + scene.level)
    rest = items_where(scene, "list_id = ?", row["id"])
    person = scene.row("SELECT * FROM contacts")
    name, subject = full_name(person), f"List {row['name']}"
    scene.need(len(rest) > len(titles))
    which = "open high-priority items" if high else "open items"
    prompt = (
        f"Send {name} an email with the subject '{subject}'. Its text must contain the titles of all {which} on my "
        f"list '{row['name']}', each on its own line, and nothing else."
    )

    def solve(api: Solver) -> None:
        rest = {"priority": "high"} if high else {}
        items = list(api.pages("todo_items", list_id=list_number(api, row["name"]), done=False, **rest))
        body = "\n".join(item["title"] for item in items)
        api.call("mail_send", to=[email_of(api, name)], subject=subject, body=body)
        api.answer()

    sent = inserted(
        "messages",
        "sent",
        folder="sent",
        subject=Text(subject),
        recipients=addresses([person["email"]]),
        body=Lines(tuple(titles)),
    )
    return TaskDraft(prompt, solve, must=(sent,))


@template("todo", "calendar", kind="action")
def todo_prepare_events(scene: Scene) -> TaskDraft:
    """Create an item for every event of a day."""
    day = scene.cast.day(scene.rng.randint(1, 20))
    own = scene.level >= 3
    rows = events_on(scene, day, day, OWN if own else "1")
    scene.need(min(scene.level, 2) <= len(rows) <= 2 + scene.level)
    where = scene.row("SELECT * FROM todo_lists")
    which = " that I organize" if own else ""
    prompt = scene.pick(
        (
            f"For every event{which} on {said(scene, day)}, add an item to my list '{where['name']}', due on that day. "
            "Its title is 'Prepare: ' followed by the title of the event.",
            f"I have to prepare for all events{which} on {said(scene, day)}. Add an item for each to the list "
            f"'{where['name']}', due on the same day, titled 'Prepare: ' followed by the title of the event.",
        )
    )

    def solve(api: Solver) -> None:
        number = list_number(api, where["name"])
        for item in list(api.pages("calendar_list_events", since=day, until=day)):
            if not own or item["my_response"] == "organizer":
                api.call("todo_add", list_id=number, title=f"Prepare: {item['title']}", due=day)
        api.answer()

    must = tuple(
        inserted(
            "todo_items",
            f"item {row['id']}",
            list_id=where["id"],
            title=Text(f"Prepare: {row['title']}"),
            due=day,
            priority="normal",
            done=0,
        )
        for row in rows
    )
    return TaskDraft(prompt, solve, must=must)


@template("todo", "contacts", "account", kind="action", held_out=True)
def todo_birthdays(scene: Scene) -> TaskDraft:
    """Create items for the next birthdays in a group."""
    group = scene.row("SELECT DISTINCT name FROM groups ORDER BY name")["name"]
    people = scene.db.rows(
        "SELECT * FROM contacts WHERE id IN (SELECT contact_id FROM groups WHERE name = ?) ORDER BY id", group
    )
    today = scene.cast.day(0)
    scene.need(2 <= len(people) <= 3 + scene.level and all(one["birthday"][5:] != today[5:] for one in people))
    where = scene.row("SELECT * FROM todo_lists")
    prompt = (
        f"I don't want to forget any birthday in my contact group '{group}'. For each member, add an item to my list "
        f"'{where['name']}', titled 'Congratulate ' followed by the full name and due on their next birthday."
    )

    def solve(api: Solver) -> None:
        number, now = list_number(api, where["name"]), api.call("account_time")["now"][:10]
        for item in list(api.pages("contacts_list_group", group=group)):
            born = api.call("contacts_get", contact_id=item["contact_id"])["birthday"]
            api.call("todo_add", list_id=number, title=f"Congratulate {item['name']}", due=_next(born, now))
        api.answer()

    must = tuple(
        inserted(
            "todo_items",
            f"item {one['id']}",
            list_id=where["id"],
            title=Text(f"Congratulate {full_name(one)}"),
            due=_next(one["birthday"], today),
            priority="normal",
            done=0,
        )
        for one in people
    )
    return TaskDraft(prompt, solve, must=must)


@template("todo", "calendar", kind="action")
def todo_make_time(scene: Scene) -> TaskDraft:
    """Put the time for an item into the calendar on its due date, and raise its priority."""
    row = item_drawn(scene, "done = 0 AND due > ? AND priority != 'high'", scene.cast.day(0))
    begin = scene.rng.randint(9, 16)
    place = scene.pick(scene.cast.words["place"])
    times = {"starts_at": f"{row['due']}T{begin:02}:00", "ends_at": f"{row['due']}T{begin + 1:02}:30"}
    raised = " Also set the item's priority to high." if scene.level >= 2 else ""
    prompt = (
        f"Add '{row['title']}' from my to-do lists to my calendar under the same title, on its due date from "
        f"{begin:02}:00 to {begin + 1:02}:30. The place is: {place}.{raised}"
    )

    def solve(api: Solver) -> None:
        found = item_found(api, row["title"])
        at, over = f"{found['due']}T{begin:02}:00", f"{found['due']}T{begin + 1:02}:30"
        api.call("calendar_create", title=row["title"], starts_at=at, ends_at=over, place=place)
        if raised:
            api.call("todo_update", item_id=found["item_id"], priority="high")
        api.answer()

    event = inserted("events", "event", title=Text(row["title"]), place=Text(place), **times)
    high = updated("todo_items", row["id"], "raised", priority="high")
    return TaskDraft(prompt, solve, must=(event, *((high,) if raised else ())))


def _next(born: str, today: str) -> str:
    """Return the next birthday of a contact; none is on February 29."""
    day = date.fromisoformat(born).replace(year=int(today[:4])).isoformat()
    return day if day > today else f"{int(today[:4]) + 1}{day[4:]}"


ACROSS = (todo_from_mail, todo_mail_list, todo_prepare_events, todo_birthdays, todo_make_time)
