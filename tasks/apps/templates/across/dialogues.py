"""Tasks with a user who withholds details, withdraws a wish, and must agree before the agent acts."""

from __future__ import annotations

from ....rows.expected import Containing, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.stated_text import StatedText
from ....rows.template import template
from ...simulators.mail.app import addresses
from ..contacts.finding import found_contact, full_name
from ..mail.writing import short_text
from ..plan import Solver
from ..talk import GO, Slot, Talk
from ..task import Dialogue
from . import errands
from .talking import ASK_FIRST, TEXT, WHO, between, namesake, others, part_after, question, reached


@template("mail", "contacts", kind="dialogue")
def mail_dialogue_send(scene: Scene) -> Dialogue:
    """Write an email: the agent asks for recipient and text, and the recipient changes from level 3 on."""
    first = scene.row("SELECT * FROM contacts")
    last = namesake(scene, first) if scene.level >= 3 else first
    topic, text = scene.pick(scene.cast.words["topic"]), short_text(scene)
    prompt = (
        scene.rng.pick(
            (
                f"I need to send someone an email with the subject '{topic}'.",
                f"Write an email for me; its subject is '{topic}'.",
            )
        )
        + " "
        + scene.rng.pick(ASK_FIRST)
    )
    talk = Talk(
        slots=(Slot(WHO, f"It is for {full_name(first)}."), Slot(TEXT, f"The text is: {text}")),
        confirm=(reached(last), text),
        proposal=(reached(first), text),
        correction=f"Oh, sorry, I mixed them up. It should go to {full_name(last)}." if last is not first else "",
        rivals=others(scene, full_name(first), full_name(last)),
    )

    def solve(api: Solver) -> None:
        name = part_after(question(api, "Who is the email for?", "Please tell me the recipient."), "It is for ")
        said = question(api, "What text should I send?", "What do you want me to write?").partition("The text is: ")[2]
        wording = api.rng.pick(("I am going to send this to {}: {}", "I will now send this to {}: {} Is that okay?"))
        answer = api.say(wording.format(name, said))
        if answer != GO:
            name = part_after(answer, "It should go to ")
            api.say(wording.format(name, said))
        api.call("mail_send", to=[found_contact(api, name)["email"]], subject=topic, body=said)
        api.answer()

    sent = {"subject": Containing((topic,)), "body": StatedText(text), "recipients": addresses([last["email"]])}
    return Dialogue(prompt, solve, must=(inserted("messages", "sent", folder="sent", **sent),), talk=talk)


@template("contacts", kind="dialogue")
def contacts_dialogue_phone(scene: Scene) -> Dialogue:
    """Write down a new number, which the user gets wrong at first."""
    row = scene.row("SELECT * FROM contacts")
    name = full_name(row)
    first, last = (f"555-{scene.rng.randrange(1000):03}-{scene.rng.randrange(10_000):04}" for _ in range(2))
    scene.need(len({first, last, row["phone"]}) == 3)
    prompt = f"{name} has a new phone number; change it in my address book. {scene.rng.pick(ASK_FIRST)}"
    talk = Talk(
        slots=(Slot(("number", "phone", "telephone"), f"The new number is {first}."),),
        confirm=(reached(row), last),
        proposal=(reached(row), first),
        correction=f"Wait, I read the wrong line: the number is {last}.",
        rivals=others(scene, name),
    )

    def solve(api: Solver) -> None:
        answer = question(api, "What is the new number?", f"What is {name}'s phone number now?")
        wording = api.rng.pick(("I will change the number of {} to {}.", "For {} I will save {}. Is that right?"))
        answer = api.say(wording.format(name, part_after(answer, "number is ")))
        number = part_after(answer, "number is ")
        api.say(wording.format(name, number))
        api.call("contacts_update", contact_id=found_contact(api, name)["contact_id"], phone=number)
        api.answer()

    return Dialogue(prompt, solve, must=(updated("contacts", row["id"], "phone", phone=last),), talk=talk)


@template("contacts", kind="dialogue")
def contacts_dialogue_delete(scene: Scene) -> Dialogue:
    """Delete one of several people with one first name, after the user has agreed."""
    alike = "SELECT first_name FROM contacts GROUP BY first_name HAVING count(*) > 1"
    row = scene.row(f"SELECT * FROM contacts WHERE first_name IN ({alike})")
    first, name = row["first_name"], full_name(row)
    group = scene.db.rows("SELECT * FROM contacts WHERE first_name = ?", first)
    known = [column for column in ("city", "company") if sum(one[column] == row[column] for one in group) == 1]
    column = scene.pick(known)
    says = {"city": f"The one who lives in {row['city']}.", "company": f"The one who works for {row['company']}."}
    prompt = (
        f"I know more than one {first}, and I will never call one of them again. Delete that entry from my address"
        f" book. {scene.rng.pick(ASK_FIRST)}"
    )
    talk = Talk(
        slots=(Slot(("which", "who", first), says[column]),),
        confirm=(("delete", "remove", "deleting", "removing"), reached(row)),
        rivals=others(scene, name),
    )

    def solve(api: Solver) -> None:
        answer = question(api, f"Which {first} is it?", "Who do you mean?")
        value = part_after(part_after(answer, "lives in "), "works for ")
        for item in list(api.pages("contacts_search", name=first)):
            person = api.call("contacts_get", contact_id=item["contact_id"])
            if value in (person["city"], person["company"]) and person["name"].split(" ")[0] == first:
                api.say(f"I am about to delete {person['name']}." + api.rng.pick(("", " Is that right?")))
                api.call("contacts_delete", contact_id=item["contact_id"])
                break
        api.answer()

    gone = scene.db.rows("SELECT id FROM groups WHERE contact_id = ?", row["id"])
    must = (
        deleted("contacts", row["id"], "deleted"),
        *(deleted("groups", one["id"], f"membership {one['id']} gone") for one in gone),
    )
    return Dialogue(prompt, solve, must=must, talk=talk)


@template("contacts", kind="dialogue")
def contacts_dialogue_group(scene: Scene) -> Dialogue:
    """Add a contact to a group, which changes after the first proposal."""
    row = scene.row("SELECT * FROM contacts")
    name = full_name(row)
    names = [one["name"] for one in scene.db.rows("SELECT DISTINCT name FROM groups ORDER BY name")]
    has = {one["name"] for one in scene.db.rows("SELECT name FROM groups WHERE contact_id = ?", row["id"])}
    free = [one for one in names if one not in has]
    scene.need(len(free) > 1)
    first, last = scene.rng.sample(free, 2)
    prompt = f"Please add {name} to one of my groups. {scene.rng.pick(ASK_FIRST)}"
    talk = Talk(
        slots=(Slot(("which", "group", "groups"), f"The group '{first}'."),),
        confirm=(reached(row), last),
        proposal=(reached(row), first),
        correction=f"Hmm, no, I changed my mind. Make it the group '{last}'.",
        rivals=(*others(scene, name), *(one for one in names if one not in (first, last))),
    )

    def solve(api: Solver) -> None:
        found = found_contact(api, name)
        answer = question(api, "Which group do you mean?", f"Which group should I add {name} to?")
        wording = api.rng.pick(("I will add {} to '{}'.", "I will add {} to the group '{}'. Is that okay?"))
        answer = api.say(wording.format(name, between(answer)))
        api.say(wording.format(name, between(answer)))
        api.call("contacts_add_to_group", contact_id=found["contact_id"], group=between(answer))
        api.answer()

    return Dialogue(prompt, solve, must=(inserted("groups", "joined", contact_id=row["id"], name=last),), talk=talk)


TEMPLATES = (
    mail_dialogue_send,
    contacts_dialogue_phone,
    contacts_dialogue_delete,
    contacts_dialogue_group,
    *errands.TEMPLATES,
)
