"""Tasks of the mailbox, some of them with contacts."""

from __future__ import annotations

from ....rows.expected import Number, inserted, updated
from ....rows.scene import Scene
from ....rows.stated_text import StatedText
from ....rows.template import TaskDraft, template
from ...simulators.mail.app import addresses
from ..contacts.finding import found_contact, full_name
from ..plan import Solver
from . import sorting, writing


@template("mail", "contacts", kind="action")
def mail_forward_newest(scene: Scene) -> TaskDraft:
    """Forward the newest message of one contact to another."""
    row = scene.row(
        "SELECT sender, max(sent_at) AS at FROM messages WHERE folder IN ('inbox', 'archive') GROUP BY sender"
    )
    newest = scene.row(
        "SELECT * FROM messages WHERE sender = ? AND sent_at = ? AND folder != 'trash'", row["sender"], row["at"]
    )
    giver = scene.row("SELECT * FROM contacts WHERE email = ?", row["sender"])
    taker = scene.row("SELECT * FROM contacts WHERE email != ?", row["sender"])
    names = [full_name(person) for person in (giver, taker)]
    prompt = scene.rng.pick(
        (
            f"Forward the newest message I have from {names[0]} to {names[1]}. Ignore the trash.",
            f"{names[1]} should see the last email that {names[0]} sent me. Please forward it, and ignore the trash.",
            f"Forward the newest message from {names[0]} to {names[1]}, ignoring the trash. If I have no such message,"
            f" refuse and give the email address of {names[0]} as evidence.",
        )
    )

    def solve(api: Solver) -> None:
        people = [found_contact(api, name)["email"] for name in names]
        found = next(api.pages("mail_search", sender=people[0]))
        api.call("mail_forward", message_id=found["message_id"], to=[people[1]])
        api.answer()

    sent = inserted(
        "messages",
        "forwarded",
        folder="sent",
        forward_of=newest["id"],
        recipients=addresses([taker["email"]]),
        body=StatedText(newest["body"]),
    )
    return TaskDraft(prompt, solve, must=(sent,))


@template("mail", kind="question")
def mail_cost_of(scene: Scene) -> TaskDraft:
    """Ask for the cost of something, according to a message."""
    topic = scene.pick(scene.cast.words["topic"])
    rows = scene.db.rows("SELECT * FROM messages WHERE body LIKE ? AND folder != 'trash'", f"%The {topic} will cost%")
    scene.need(len(rows) == 1 and rows[0]["folder"] in ("inbox", "archive"))
    cost = rows[0]["body"].split(" will cost ")[1].split(" ")[0]
    prompt = scene.rng.pick(
        (
            f"Someone emailed me what the {topic} will cost. How much is it?",
            f"How much will the {topic} cost this year? One of my messages says so.",
        )
    )

    def solve(api: Solver) -> None:
        for item in api.pages("mail_search", words=api.rng.pick((f"{topic} will cost", f"the {topic} will cost"))):
            body = api.call("mail_read", message_id=item["message_id"])["body"]
            if f"The {topic} will cost " in body:
                api.answer(float(body.split(" will cost ")[1].split(" ")[0]))
                return

    return TaskDraft(prompt, solve, answer=Number(float(cost)), secrets=(cost,))


@template("mail", kind="mixed")
def mail_star_unread_of(scene: Scene) -> TaskDraft:
    """Star the unread messages from an address, and report their number."""
    sender = scene.row("SELECT DISTINCT sender FROM messages WHERE folder = 'inbox' AND unread = 1")["sender"]
    rows = scene.db.rows("SELECT * FROM messages WHERE folder = 'inbox' AND unread = 1 AND sender = ?", sender)
    plain = [row for row in rows if not row["starred"]]
    scene.need(bool(plain) and len(rows) <= scene.level + 1)
    prompt = (
        f"Star every unread message from {sender} in my inbox, and tell me how many of them were not starred before."
    )

    def solve(api: Solver) -> None:
        found = [item for item in api.pages("mail_list_folder", unread_only=True) if item["from"] == sender]
        bare = [item for item in found if not item["starred"]]
        for item in bare:
            api.call("mail_mark", message_id=item["message_id"], starred=True)
        api.answer(len(bare))

    must = tuple(updated("messages", row["id"], f"star {row['id']}", starred=1) for row in plain)
    return TaskDraft(prompt, solve, must=must, answer=Number(len(plain)))


TEMPLATES = (mail_forward_newest, mail_cost_of, mail_star_unread_of, *sorting.TEMPLATES, *writing.TEMPLATES)
