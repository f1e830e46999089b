"""Tasks of finding, counting and sorting messages."""

from __future__ import annotations

from ....rows.expected import Text, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.mail.history import LABELS
from ..contacts.finding import found_contact, full_name
from ..plan import Solver

GOT = "folder IN ('inbox', 'archive')"
"""SQL condition for received messages that are not in the trash."""


@template("mail", "contacts", kind="action")
def mail_archive_older(scene: Scene) -> TaskDraft:
    """Archive the messages of a sender from before a date."""
    sender = scene.row("SELECT sender FROM messages WHERE folder = 'inbox' GROUP BY sender HAVING count(*) > 1")[
        "sender"
    ]
    name = full_name(scene.row("SELECT * FROM contacts WHERE email = ?", sender))
    rows = scene.db.rows("SELECT * FROM messages WHERE folder = 'inbox' AND sender = ? ORDER BY sent_at", sender)
    begin = scene.pick([row["sent_at"][:10] for row in rows[1:]])
    old = [row for row in rows if row["sent_at"] < begin]
    scene.need(1 <= len(old) <= 2 + scene.level)
    prompt = scene.rng.pick(
        (
            f"Move everything in my inbox that {name} sent me before {begin} to the archive.",
            f"My inbox is too full. Archive the messages from {name} in it that arrived before {begin}, and keep those"
            " from that day or later.",
        )
    )

    def solve(api: Solver) -> None:
        email = found_contact(api, name)["email"]
        found = [
            item
            for item in api.pages("mail_search", sender=email, folder="inbox", until=begin)
            if item["sent_at"] < begin
        ]
        api.rng.shuffle(found)
        for item in found:
            api.call("mail_move", message_id=item["message_id"], folder="archive")
        api.answer()

    must = tuple(updated("messages", row["id"], f"archived {row['id']}", folder="archive") for row in old)
    return TaskDraft(prompt, solve, must=must)


@template("mail", "contacts", kind="question")
def mail_wrote_most_in(scene: Scene) -> TaskDraft:
    """Ask for the phone number of the contact who wrote most in a month."""
    months = sorted({scene.cast.day(-days)[:7] for days in range(115)} - {scene.cast.day(0)[:7]})
    clear = []
    for month in months[1:]:
        rows = scene.db.rows(
            f"SELECT sender, count(*) AS n FROM messages WHERE {GOT} AND sent_at LIKE ? GROUP BY 1 ORDER BY 2 DESC",
            f"{month}-%",
        )
        if len(rows) > 1 and rows[0]["n"] > rows[1]["n"]:
            clear.append((month, rows[0]["sender"]))
    month, sender = scene.pick(clear)
    person = scene.row("SELECT * FROM contacts WHERE email = ?", sender)
    prompt = scene.rng.pick(
        (
            f"Who sent me the most emails in {month}, not counting those in the trash? Tell me that person's"
            " phone number.",
            f"I want to call the person who sent me the most messages in {month} (inbox and archive, not the trash)."
            " What number should I dial?",
        )
    )

    def solve(api: Solver) -> None:
        counts: dict[str, int] = {}
        for folder in api.rng.sample(("inbox", "archive"), 2):
            for item in api.pages("mail_search", folder=folder, since=f"{month}-01"):
                if item["sent_at"].startswith(month):
                    counts[item["from"]] = counts.get(item["from"], 0) + 1
        item = next(api.pages("contacts_search", email=max(counts, key=lambda sender: counts[sender])))
        api.answer(api.call("contacts_get", contact_id=item["contact_id"])["phone"])

    return TaskDraft(prompt, solve, answer=Text(person["phone"]), secrets=(person["phone"],))


@template("mail", kind="action", held_out=True)
def mail_label_topic(scene: Scene) -> TaskDraft:
    """Label all messages about a topic."""
    topic, label = scene.pick(scene.cast.words["topic"]), scene.pick(LABELS)
    folders = ("inbox",) if scene.level < 3 else ("inbox", "archive")
    rows = scene.db.rows(
        f"""SELECT * FROM messages WHERE folder IN ({", ".join("?" * len(folders))}) AND instr(lower(subject), ?)
            AND id NOT IN (SELECT message_id FROM labels WHERE label = ?)""",
        *folders,
        topic,
        label,
    )
    scene.need(1 <= len(rows) <= 2 + scene.level)
    prompt = scene.rng.pick(
        (
            f"Add the label '{label}' to every message in my {' and my '.join(folders)} that has the word '{topic}' in"
            " its subject. Some may already have the label.",
            f"All messages in my {' and my '.join(folders)} with '{topic}' in the subject should have the label"
            f" '{label}'. Add it where it is missing.",
        )
    )

    def solve(api: Solver) -> None:
        for folder in api.rng.sample(folders, len(folders)):
            done = {item["message_id"] for item in api.pages("mail_search", folder=folder, label=label)}
            for item in list(api.pages("mail_search", words=topic, folder=folder)):
                if topic in item["subject"].lower() and item["message_id"] not in done:
                    api.call("mail_label", message_id=item["message_id"], label=label)
        api.answer()

    must = tuple(inserted("labels", f"label on {row['id']}", message_id=row["id"], label=label) for row in rows)
    return TaskDraft(prompt, solve, must=must)


TEMPLATES = (mail_archive_older, mail_wrote_most_in, mail_label_topic)
