"""More dialogues: facts to count or look up before a proposal, and a request that the user takes back."""

from __future__ import annotations

from ....rows.expected import Refusal, Text, inserted, updated
from ....rows.scene import Scene
from ....rows.stated_text import StatedText
from ....rows.template import template
from ...simulators.mail.app import addresses
from ..contacts.finding import found_contact, full_name
from ..mail.sorting import GOT
from ..plan import Solver
from ..talk import GO, Slot, Talk
from ..task import Dialogue
from .talking import ASK_FIRST, WHO, counted, namesake, others, part_after, question, reached

MOST = 30
"""Largest number of messages for which the user notices a proposal that names several numbers."""


@template("mail", "contacts", kind="dialogue")
def mail_dialogue_archive(scene: Scene) -> Dialogue:
    """Archive messages older than a date, which the user changes after learning their number."""
    inbox = "SELECT * FROM messages WHERE folder = 'inbox' AND sender = ? ORDER BY sent_at"
    person = scene.row(
        """SELECT * FROM contacts WHERE email IN
           (SELECT sender FROM messages WHERE folder = 'inbox' GROUP BY sender HAVING count(*) > 2)"""
    )
    name, rows = full_name(person), scene.db.rows(inbox, person["email"])
    days = sorted({row["sent_at"][:10] for row in rows[1:]})
    scene.need(len(days) > 1)
    first, last = scene.rng.sample(days, 2)
    old = {day: [row for row in rows if row["sent_at"] < day] for day in (first, last)}
    scene.need(all(old.values()) and len(old[first]) != len(old[last]) and len(old[last]) <= 2 + scene.level)
    counts = [len(old[first]), len(old[last])]
    prompt = (
        f"Move old messages from {name} from my inbox to the archive. Ask me how old. Then tell me how many messages"
        f" that is (such as '{scene.rng.randint(40, 60)} messages'), who they are from, and the cutoff day. Move them"
        " only when I agree."
    )
    talk = Talk(
        slots=(Slot(("day", "date", "old", "older", "before", "when"), f"Everything from before {first}."),),
        confirm=(reached(person), last, counted(counts[1])),
        proposal=(reached(person), first, counted(counts[0])),
        correction=f"That's not what I expected. Take everything from before {last}.",
        rivals=(
            *others(scene, name),
            *(text for n in range(MOST) if n not in counts for text in counted(n)),
        ),
    )

    def solve(api: Solver) -> None:
        answer, email = question(api, "How old?", "From before which day?"), found_contact(api, name)["email"]
        for _ in range(2):
            day = part_after(answer, "from before ")
            items = list(api.pages("mail_search", sender=email, folder="inbox", until=day))
            items = [item for item in items if item["sent_at"] < day]
            answer = api.say(f"I will archive {counted(len(items))[0]} from {name} from before {day}.")
        for item in items:
            api.call("mail_move", message_id=item["message_id"], folder="archive")
        api.answer()

    must = tuple(updated("messages", row["id"], f"archived {row['id']}", folder="archive") for row in old[last])
    return Dialogue(prompt, solve, must=must, talk=talk)


@template("mail", "contacts", kind="dialogue")
def mail_dialogue_forward(scene: Scene) -> Dialogue:
    """Forward a message: the agent asks which and to whom, and the recipient changes from level 2 on."""
    wanted = scene.row(f"SELECT * FROM messages WHERE {GOT}")
    giver = scene.row("SELECT * FROM contacts WHERE email = ?", wanted["sender"])
    rows = scene.db.rows("SELECT * FROM messages WHERE sender = ? AND folder != 'trash'", giver["email"])
    topic = scene.pick([word for word in scene.cast.words["topic"] if word in wanted["subject"].lower()])
    scene.need(sum(topic in row["subject"].lower() for row in rows) == 1 and len(rows) > 1)
    first = scene.row("SELECT * FROM contacts WHERE id != ?", giver["id"])
    last = namesake(scene, first) if scene.level >= 2 else first
    scene.need(giver["id"] not in (first["id"], last["id"]))
    prompt = f"{full_name(giver)} sent me something that I want you to forward. {scene.rng.pick(ASK_FIRST)}"
    talk = Talk(
        slots=(
            Slot(WHO, f"Forward it to {full_name(first)}."),
            Slot(("which", "message", "subject", "about", "topic"), f"It is the one about the {topic}."),
        ),
        confirm=(reached(last), topic),
        proposal=(reached(first), topic),
        correction=f"No, I meant someone else: forward it to {full_name(last)}." if last is not first else "",
        rivals=(
            *others(scene, *(full_name(person) for person in (giver, first, last))),
            *(word for word in scene.cast.words["topic"] if word != topic),
        ),
    )

    def solve(api: Solver) -> None:
        about = part_after(question(api, "Which message is it?", "What is its subject?"), "about the ")
        name = part_after(question(api, "Who should I forward it to?", "Who should get it?"), "orward it to ")
        email = found_contact(api, full_name(giver))["email"]
        items = list(api.pages("mail_search", sender=email, words=about))
        item = next(item for item in items if about in item["subject"].lower())
        wording = api.rng.pick(
            ("I will forward the message about the {} to {}.", "I will send the email about the {} to {}. Okay?")
        )
        answer = api.say(wording.format(about, name))
        if answer != GO:
            name = part_after(answer, "forward it to ")
            api.say(wording.format(about, name))
        api.call("mail_forward", message_id=item["message_id"], to=[found_contact(api, name)["email"]])
        api.answer()

    sent = {"forward_of": wanted["id"], "recipients": addresses([last["email"]]), "body": StatedText(wanted["body"])}
    return Dialogue(prompt, solve, must=(inserted("messages", "forwarded", folder="sent", **sent),), talk=talk)


@template("contacts", kind="dialogue")
def contacts_dialogue_add(scene: Scene) -> Dialogue:
    """Add a contact: the agent asks for name, number and email address, which changes from level 2 on."""
    words = scene.cast.words
    first, last = scene.pick(words["first"]), scene.pick(words["last"])
    phone = f"555-{scene.rng.randrange(1000):03}-{scene.rng.randrange(10_000):04}"
    wrong, right = (f"{first}.{last}@{domain}".lower() for domain in scene.rng.sample(words["domain"], 2))
    known = "SELECT id FROM contacts WHERE first_name || ' ' || last_name = ? OR email IN (?, ?)"
    scene.need(not scene.db.rows(known, f"{first} {last}", wrong, right))
    changes = scene.level >= 2
    said = wrong if changes else right
    prompt = (
        "I met someone I want to add to my address book, with name, phone number and email address."
        f" {scene.rng.pick(ASK_FIRST)}"
    )
    talk = Talk(
        slots=(
            Slot(("name", "called", "who"), f"The name is {first} {last}."),
            Slot(("number", "phone", "telephone"), f"The number is {phone}."),
            Slot(("address", "e-mail", "email"), f"The address is {said}."),
        ),
        confirm=(f"{first} {last}", phone, right),
        proposal=(f"{first} {last}", phone, said),
        correction=f"Sorry, I misread it. The address is {right}." if changes else "",
        rivals=others(scene),
    )

    def solve(api: Solver) -> None:
        questions = {"name": "What is the name?", "number": "Which number?", "address": "And the email address?"}
        order = api.rng.sample(list(questions), 3)
        facts = {what: part_after(api.say(questions[what]), f"The {what} is ") for what in order}
        wording = api.rng.pick(("I will add {name}, {number}, {address}.", "New: {name}, {address}, {number}?"))
        answer = api.say(wording.format(**facts))
        if answer != GO:
            facts["address"] = part_after(answer, "The address is ")
            api.say(wording.format(**facts))
        names = dict(zip(("first_name", "last_name"), facts["name"].split(" "), strict=True))
        api.call("contacts_add", **names, email=facts["address"], phone=facts["number"])
        api.answer()

    new = inserted("contacts", "added", first_name=first, last_name=last, email=right, phone=phone)
    return Dialogue(prompt, solve, must=(new,), talk=talk)


@template("mail", "contacts", kind="dialogue", held_out=True)
def mail_dialogue_taken_back(scene: Scene) -> Dialogue:
    """Delete messages; when the user hears their number, the user takes the request back."""
    folder = scene.rng.pick(("inbox", "archive"))
    having = "GROUP BY sender HAVING count(*) BETWEEN 2 AND 8"
    person = scene.row(
        f"SELECT * FROM contacts WHERE email IN (SELECT sender FROM messages WHERE folder = ? {having})", folder
    )
    name, topic = full_name(person), scene.pick(scene.cast.words["topic"])
    n = scene.db.value("SELECT count(*) FROM messages WHERE folder = ? AND sender = ?", folder, person["email"])
    prompt = (
        f"Move everything that {name} sent me from my {folder} to the trash. But first tell me how many messages that"
        f" is (such as '{scene.rng.randint(40, 60)} messages') and who they are from, and wait for my answer. If I"
        " change my mind, leave everything as it is and refuse, because it is not allowed then. As evidence, give what"
        " I still need them for, in one word."
    )
    talk = Talk(
        proposal=(reached(person), counted(n)),
        correction=f"Oh no, then don't touch them! I still need them for the {topic}.",
        rivals=(*others(scene, name), *(text for k in range(MOST) if k != n for text in counted(k))),
    )

    def solve(api: Solver) -> None:
        email = found_contact(api, name)["email"]
        total = api.call("mail_search", sender=email, folder=folder)["total"]
        answer = question(
            api,
            f"I will move {counted(total)[0]} from {name} to the trash.",
            f"I am about to move {counted(total)[0]} from {name} to the trash. Is that right?",
        )
        api.refuse("not_allowed", part_after(answer, "need them for the ").split(" ")[-1])

    refusal = Refusal("not_allowed", Text(topic, (f"the {topic}",)))
    return Dialogue(prompt, solve, refusal=refusal, talk=talk, secrets=(topic,))


TEMPLATES = (mail_dialogue_archive, mail_dialogue_forward, contacts_dialogue_add, mail_dialogue_taken_back)
