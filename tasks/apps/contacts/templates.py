"""Tasks of the address book alone."""

from __future__ import annotations

from ..asking.expected import Number, Text, inserted, updated
from ..asking.plan import Solver
from ..asking.template import Asked, Scene, template


@template("contacts", kind="question")
def contacts_phone_of(scene: Scene) -> Asked:
    """The telephone number of somebody."""
    row = scene.row("SELECT * FROM contacts")
    name = f"{row['first_name']} {row['last_name']}"
    scene.need(scene.db.value("SELECT count(*) FROM contacts WHERE first_name || ' ' || last_name = ?", name) == 1)
    prompt = scene.rng.pick(
        (
            f"What is the telephone number of {name}?",
            f"I want to call {name}. Which number do I dial?",
            f"Look up {name}'s phone number for me.",
        )
    )

    def solve(api: Solver) -> None:
        found = next(api.pages("contacts_search", name=api.rng.pick((name, row["last_name"]))))
        api.answer(api.call("contacts_get", contact_id=found["contact_id"])["phone"])

    return Asked(prompt, solve, answer=Text(row["phone"]), secrets=(row["phone"],))


@template("contacts", kind="question")
def contacts_count_in_city(scene: Scene) -> Asked:
    """How many people of a kind live in a city."""
    row = scene.row("SELECT city, relation FROM contacts")
    city, relation = row["city"], row["relation"]
    if scene.level == 1:
        count = scene.db.value("SELECT count(*) FROM contacts WHERE city = ?", city)
        prompt = scene.rng.pick(
            (f"How many people in my address book live in {city}?", f"Count my contacts who live in {city}.")
        )
        conditions = {"city": city}
    else:
        count = scene.db.value("SELECT count(*) FROM contacts WHERE city = ? AND relation = ?", city, relation)
        prompt = f"How many people in my address book live in {city} and are listed as {relation}?"
        conditions = {"city": city, "relation": relation}

    def solve(api: Solver) -> None:
        api.answer(api.call("contacts_search", **conditions)["total"])

    return Asked(prompt, solve, answer=Number(count))


@template("contacts", kind="action")
def contacts_change_phone(scene: Scene) -> Asked:
    """Write down somebody's new number."""
    row = scene.row("SELECT * FROM contacts")
    name = f"{row['first_name']} {row['last_name']}"
    phone = f"555-{scene.rng.randrange(1000):03}-{scene.rng.randrange(10_000):04}"
    scene.need(phone != row["phone"])
    prompt = scene.rng.pick(
        (
            f"{name} has a new telephone number: {phone}. Write it into my address book.",
            f"Change the phone number of {name} to {phone}.",
        )
    )

    def solve(api: Solver) -> None:
        found = next(item for item in api.pages("contacts_search", name=row["last_name"]) if item["name"] == name)
        api.call("contacts_update", contact_id=found["contact_id"], phone=phone)
        api.answer()

    return Asked(prompt, solve, must=(updated("contacts", row["id"], "phone", phone=phone),))


@template("contacts", kind="action")
def contacts_company_to_group(scene: Scene) -> Asked:
    """Put everybody of a company into a group."""
    company = scene.row("SELECT company FROM contacts")["company"]
    group = scene.row("SELECT DISTINCT name FROM groups ORDER BY name")["name"]
    rows = scene.db.rows(
        """SELECT * FROM contacts WHERE company = ?1
           AND id NOT IN (SELECT contact_id FROM groups WHERE name = ?2) ORDER BY id""",
        company,
        group,
    )
    scene.need(1 <= len(rows) <= 3 + scene.level)
    prompt = scene.rng.pick(
        (
            f"Everybody who works for {company} joins the group '{group}'. Put those into it who are not in it yet.",
            f"Add all my contacts from {company} to the group '{group}'; some may be members already.",
        )
    )

    def solve(api: Solver) -> None:
        members = {item["contact_id"] for item in api.pages("contacts_list_group", group=group)}
        for item in list(api.pages("contacts_search", company=company)):
            if item["contact_id"] not in members:
                api.call("contacts_add_to_group", contact_id=item["contact_id"], group=group)
        api.answer()

    must = tuple(inserted("groups", f"joined {row['id']}", contact_id=row["id"], name=group) for row in rows)
    return Asked(prompt, solve, must=must)


TEMPLATES = (contacts_phone_of, contacts_count_in_city, contacts_change_phone, contacts_company_to_group)
