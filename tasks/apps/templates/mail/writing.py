"""Tasks of replying to, forwarding and writing messages."""

from __future__ import annotations

import json

from ....rows.expected import Must, Refusal, Text, inserted, updated
from ....rows.scene import Scene
from ....rows.stated_text import StatedText
from ....rows.template import TaskDraft, template
from ...simulators.mail.app import addresses
from ..contacts.finding import found_contact, full_name
from ..plan import Solver
from .sorting import GOT


def short_text(scene: Scene) -> str:
    """Draw a sentence for the text of a message."""
    place, hour = scene.pick(scene.cast.words["place"]), scene.rng.randint(1, 12)
    return scene.rng.pick(
        (
            f"Let's meet at {place} at {hour} on Friday.",
            f"I left the papers at {place}.",
            f"Please call me at {hour} tomorrow.",
            f"There are {hour + 12} copies for you at {place}.",
        )
    )


@template("mail", "contacts", kind="action")
def mail_reply_newest_unread(scene: Scene) -> TaskDraft:
    """Reply to the newest unread message of a contact."""
    sender = scene.row("SELECT DISTINCT sender FROM messages WHERE folder = 'inbox' AND unread = 1")["sender"]
    name = full_name(scene.row("SELECT * FROM contacts WHERE email = ?", sender))
    unread = "SELECT * FROM messages WHERE folder = 'inbox' AND unread = 1 AND sender = ? ORDER BY sent_at DESC"
    rows, text = scene.db.rows(unread, sender), short_text(scene)
    scene.need(len(rows) == 1 or rows[0]["sent_at"] != rows[1]["sent_at"])
    newest = rows[0]
    more = " Then archive the message that you replied to." if scene.level >= 3 else ""
    prompt = scene.rng.pick(
        (
            f"Reply to the newest unread message from {name} in my inbox with {text!r}{more}",
            f"{name} is waiting for an answer. Reply to their newest message in my inbox that is still unread with"
            f" {text!r}{more}",
        )
    )

    def solve(api: Solver) -> None:
        email = found_contact(api, name)["email"]
        item = next(api.pages("mail_search", sender=email, folder="inbox", unread=True))
        if api.rng.random() < 0.5:
            api.call("mail_read", message_id=item["message_id"])
        api.call("mail_reply", message_id=item["message_id"], body=text)
        if scene.level >= 3:
            api.call("mail_move", message_id=item["message_id"], folder="archive")
        api.answer()

    must = [
        inserted(
            "messages",
            "replied",
            folder="sent",
            reply_to=newest["id"],
            recipients=addresses([sender]),
            body=StatedText(text),
        )
    ]
    if scene.level >= 3:
        must.append(updated("messages", newest["id"], "archived", folder="archive"))
    return TaskDraft(prompt, solve, must=tuple(must))


@template("mail", "contacts", kind="action")
def mail_forward_to_group(scene: Scene) -> TaskDraft:
    """Forward the newest message about a topic to all members of a group."""
    group = scene.row("SELECT name FROM groups GROUP BY name HAVING count(*) BETWEEN 3 AND 9")["name"]
    members = scene.db.rows("SELECT * FROM contacts WHERE id IN (SELECT contact_id FROM groups WHERE name = ?)", group)
    topic = scene.pick(scene.cast.words["topic"])
    about = f"SELECT * FROM messages WHERE {GOT} AND instr(lower(subject), ?) ORDER BY sent_at DESC"
    rows = scene.db.rows(about, topic)
    scene.need(bool(rows) and (len(rows) == 1 or rows[0]["sent_at"] != rows[1]["sent_at"]))
    spared = scene.pick(members) if scene.level >= 3 else None
    takers = [row["email"] for row in members if row is not spared]
    but = f" except {full_name(spared)}" if spared else ""
    prompt = scene.rng.pick(
        (
            f"Forward the newest message I received (inbox or archive) with the word '{topic}' in its subject to"
            f" everyone in my group '{group}'{but}. Send one email to all of them, please.",
            f"All members of the group '{group}'{but} should see the last message I received about the {topic}. Look"
            " at the subjects in my inbox and archive, and forward that message in a single email.",
        )
    )

    def solve(api: Solver) -> None:
        items = list(api.pages("contacts_list_group", group=group))
        to = [item["email"] for item in items if spared is None or item["name"] != full_name(spared)]
        api.rng.shuffle(to)
        for item in api.pages("mail_search", words=topic):
            if topic in item["subject"].lower() and item["folder"] in ("inbox", "archive"):
                api.call("mail_forward", message_id=item["message_id"], to=to)
                break
        api.answer()

    sent = inserted(
        "messages",
        "forwarded",
        folder="sent",
        forward_of=rows[0]["id"],
        recipients=addresses(takers),
        body=StatedText(rows[0]["body"]),
    )
    return TaskDraft(prompt, solve, must=(sent,))


@template("mail", "contacts", kind="action")
def mail_drafts(scene: Scene) -> TaskDraft:
    """Send an existing draft, and save another new one."""
    drafts = scene.db.rows("SELECT * FROM messages WHERE folder = 'drafts'")
    row = scene.pick(drafts)
    scene.need(sum((one["recipients"], one["subject"]) == (row["recipients"], row["subject"]) for one in drafts) == 1)
    taker = full_name(scene.row("SELECT * FROM contacts WHERE email = ?", json.loads(row["recipients"])[0]))
    person = scene.row("SELECT * FROM contacts")
    name, topic, text = full_name(person), scene.pick(scene.cast.words["topic"]), short_text(scene)
    must: list[Must] = [updated("messages", row["id"], "sent", folder="sent")]
    prompt = scene.rng.pick(
        (
            f"I have a draft to {taker} with the subject '{row['subject']}'. Send it as it is.",
            f"I never sent {taker} the message '{row['subject']}', which is still in my drafts. Please send it now.",
        )
    )
    if scene.level >= 2:
        prompt += f" Then save a new draft to {name} with the subject '{topic}' and the text {text!r} Don't send it."
        columns = {"recipients": addresses([person["email"]]), "subject": Text(topic), "body": StatedText(text)}
        must.append(inserted("messages", "kept", folder="drafts", **columns))

    def solve(api: Solver) -> None:
        email = found_contact(api, taker)["email"]
        for item in api.pages("mail_list_folder", folder="drafts"):
            if item["to"] == [email] and item["subject"] == row["subject"]:
                api.call("mail_send_draft", message_id=item["message_id"])
                break
        if scene.level >= 2:
            api.call("mail_save_draft", to=[found_contact(api, name)["email"]], subject=topic, body=text)
        api.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("mail", "contacts", kind="refusal")
def mail_no_such_message(scene: Scene) -> TaskDraft:
    """Refuse to forward a message that does not exist."""
    sender = scene.row(f"SELECT DISTINCT sender FROM messages WHERE {GOT}")["sender"]
    name = full_name(scene.row("SELECT * FROM contacts WHERE email = ?", sender))
    rows = scene.db.rows("SELECT * FROM messages WHERE sender = ? ORDER BY sent_at DESC", sender)
    newest = next(row for row in rows if row["folder"] in ("inbox", "archive"))
    topic, taker = scene.pick(scene.cast.words["topic"]), scene.row("SELECT * FROM contacts WHERE email != ?", sender)
    scene.need(not any(topic in f"{row['subject']} {row['body']}".lower() for row in rows))
    prompt = scene.rng.pick(
        (
            f"Forward what {name} wrote me about the {topic} to {full_name(taker)}. If there is no such message,"
            f" refuse and give the date of the newest message from {name} as evidence, ignoring the trash.",
            f"{full_name(taker)} wants to see the message from {name} about the {topic}; forward it. If {name} never"
            " wrote about that, refuse. As evidence, give the date of their last email to me (ignore the trash).",
        )
    )

    def solve(api: Solver) -> None:
        email = found_contact(api, name)["email"]
        api.call("mail_search", sender=email, words=topic)
        item = next(api.pages("mail_search", sender=email))
        api.refuse("not_found", item["sent_at"][:10])

    at = newest["sent_at"]
    evidence = Text(at[:10], (at, at.replace("T", " ")))
    return TaskDraft(prompt, solve, refusal=Refusal("not_found", evidence), secrets=(at[:10],))


TEMPLATES = (mail_reply_newest_unread, mail_forward_to_group, mail_drafts, mail_no_such_message)
