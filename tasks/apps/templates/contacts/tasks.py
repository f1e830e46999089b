"""Tasks of the address book alone."""

from __future__ import annotations

from ....rows.expected import Listing, Refusal, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..plan import Solver
from .finding import found_contact, full_name


@template("contacts", kind="question")
def contacts_phone_of(scene: Scene) -> TaskDraft:
    """Ask for the phone number of a contact."""
    row = scene.row("SELECT * FROM contacts")
    name = full_name(row)
    scene.need(scene.db.value("SELECT count(*) FROM contacts WHERE first_name || ' ' || last_name = ?", name) == 1)
    prompt = scene.rng.pick(
        (
            f"What is {name}'s phone number?",
            f"I want to call {name}. What number should I dial?",
            f"Look up {name}'s phone number for me.",
        )
    )

    def solve(api: Solver) -> None:
        api.answer(api.call("contacts_get", contact_id=found_contact(api, name)["contact_id"])["phone"])

    return TaskDraft(prompt, solve, answer=Text(row["phone"]), secrets=(row["phone"],))


@template("contacts", kind="question")
def contacts_who_lives_in(scene: Scene) -> TaskDraft:
    """Ask for the contacts in a city, all of them or those of one relation."""
    row = scene.row("SELECT city, relation FROM contacts")
    conditions = {"city": row["city"]} if scene.level == 1 else {"city": row["city"], "relation": row["relation"]}
    holds = " AND ".join(f"{column} = ?" for column in conditions)
    rows = scene.db.rows(f"SELECT * FROM contacts WHERE {holds}", *conditions.values())
    kind = "" if scene.level == 1 else f" and is listed as {row['relation']}"
    prompt = scene.rng.pick(
        (
            f"Who in my address book lives in {row['city']}{kind}? Give me their full names.",
            f"I will be in {row['city']} next week. List everyone in my address book who lives there{kind}, with"
            " first and last names.",
        )
    )

    def solve(api: Solver) -> None:
        api.answer([item["name"] for item in api.pages("contacts_search", **conditions)])

    return TaskDraft(prompt, solve, answer=Listing(tuple(full_name(row) for row in rows)))


@template("contacts", kind="action")
def contacts_change_phone(scene: Scene) -> TaskDraft:
    """Update the phone number of a contact."""
    row = scene.row("SELECT * FROM contacts")
    name = full_name(row)
    phone = f"555-{scene.rng.randrange(1000):03}-{scene.rng.randrange(10_000):04}"
    scene.need(phone != row["phone"])
    prompt = scene.rng.pick(
        (
            f"{name} has a new phone number: {phone}. Update my address book.",
            f"Change {name}'s phone number to {phone}.",
            f"{name} can now be reached at {phone}. Update my address book. If no one with this name is in it, refuse"
            " and give the number of contacts with the same first name as evidence.",
        )
    )

    def solve(api: Solver) -> None:
        api.call("contacts_update", contact_id=found_contact(api, name)["contact_id"], phone=phone)
        api.answer()

    return TaskDraft(prompt, solve, must=(updated("contacts", row["id"], "phone", phone=phone),))


@template("contacts", kind="action")
def contacts_company_to_group(scene: Scene) -> TaskDraft:
    """Add all contacts of a company to a group."""
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
            f"Everyone who works for {company} should be in the group '{group}'. Add those who are not in it yet.",
            f"Add all my contacts from {company} to the group '{group}'. Some may already be members.",
        )
    )

    def solve(api: Solver) -> None:
        members = {item["contact_id"] for item in api.pages("contacts_list_group", group=group)}
        for item in list(api.pages("contacts_search", company=company)):
            if item["contact_id"] not in members:
                api.call("contacts_add_to_group", contact_id=item["contact_id"], group=group)
        api.answer()

    must = tuple(inserted("groups", f"joined {row['id']}", contact_id=row["id"], name=group) for row in rows)
    return TaskDraft(prompt, solve, must=must)


@template("contacts", "account", kind="question")
def contacts_birthdays_next_month(scene: Scene) -> TaskDraft:
    """Ask for the contacts whose birthday is next month."""
    month = scene.cast.now.month % 12 + 1
    relation, people = scene.rng.pick((("friend", "friends"), ("colleague", "colleagues"), ("family", "relatives")))
    rows = scene.db.rows("SELECT * FROM contacts WHERE birthday LIKE ? ORDER BY id", f"____-{month:02}-%")
    if scene.level >= 3:
        rows = [row for row in rows if row["relation"] == relation]
    scene.need(1 <= len(rows) <= 2 + scene.level)
    who = f"Who among my {people} (listed as {relation})" if scene.level >= 3 else "Who in my address book"
    prompt = scene.rng.pick(
        (
            f"{who} has a birthday next month? Give me the full names.",
            f"I want to buy birthday cards for next month. {who} has a birthday then? List first and last names.",
        )
    )

    def solve(api: Solver) -> None:
        coming = int(api.call("account_time")["now"][5:7]) % 12 + 1
        items = list(api.pages("contacts_birthdays", month=coming))
        if scene.level >= 3:
            asked = {item["contact_id"] for item in api.pages("contacts_search", relation=relation)}
            items = [item for item in items if item["contact_id"] in asked]
        api.rng.shuffle(items)
        api.answer([item["name"] for item in items])

    return TaskDraft(prompt, solve, answer=Listing(tuple(full_name(row) for row in rows)))


@template("contacts", kind="action")
def contacts_merge_duplicate(scene: Scene) -> TaskDraft:
    """Merge two entries of the same person."""
    kept = scene.row("SELECT * FROM contacts")
    phone = f"555-{scene.rng.randrange(1000):03}-{scene.rng.randrange(10_000):04}"
    city = scene.pick([city for city in scene.cast.words["city"] if city != kept["city"]])
    email = f"{kept['first_name'][0]}.{kept['last_name']}@{scene.rng.pick(scene.cast.words['domain'])}".lower()
    scene.need(phone != kept["phone"] and not scene.db.rows("SELECT id FROM contacts WHERE email = ?", email))
    same = {name: kept[name] for name in ("first_name", "last_name", "birthday", "company", "relation")}
    other = scene.add("contacts", **same, email=email, phone=phone, city=city, favorite=0)
    taken = {"phone": phone} if scene.level == 1 else {"phone": phone, "city": city}
    must = [updated("contacts", kept["id"], "taken over", **taken), deleted("contacts", other, "duplicate gone")]
    more = ""
    if scene.level >= 3:
        member = "SELECT name FROM groups WHERE contact_id = ?"
        group = scene.row(f"SELECT DISTINCT name FROM groups WHERE name NOT IN ({member})", kept["id"])["name"]
        must.append(deleted("groups", scene.add("groups", contact_id=other, name=group), "membership gone"))
        must.append(inserted("groups", "membership kept", contact_id=kept["id"], name=group))
        more = " The entry that I keep must also be in every group that the other one is in."
    what = " and ".join({"phone": "phone number", "city": "city"}[column] for column in taken)
    name = full_name(kept)
    prompt = scene.rng.pick(
        (
            f"{name} is in my address book twice. Keep the entry with the email address {kept['email']}, but copy the"
            f" {what} from the other entry, which is newer. Then delete the other entry.{more}",
            f"There are two entries for {name}. Merge them: keep the one with the email {kept['email']}, copy the"
            f" {what} of the other one to it, and delete the other one.{more}",
        )
    )

    def solve(api: Solver) -> None:
        items = [item for item in api.pages("contacts_search", name=name) if item["name"] == name]
        stays = next(item["contact_id"] for item in items if item["email"] == kept["email"])
        goes = next(item["contact_id"] for item in items if item["contact_id"] != stays)
        known = api.call("contacts_get", contact_id=goes)
        api.call("contacts_update", contact_id=stays, **{column: known[column] for column in taken})
        if scene.level >= 3:
            mine = api.call("contacts_get", contact_id=stays)["groups"]
            for one in sorted(set(known["groups"]) - set(mine)):
                api.call("contacts_add_to_group", contact_id=stays, group=one)
        api.call("contacts_delete", contact_id=goes)
        api.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("contacts", kind="refusal")
def contacts_unknown_person(scene: Scene) -> TaskDraft:
    """Change an entry of a contact who does not exist."""
    known = scene.row("SELECT * FROM contacts GROUP BY first_name HAVING count(*) = 1")
    first = known["first_name"]
    last = scene.pick([last for last in scene.cast.words["last"] if last != known["last_name"]])
    # The search also matches parts of names: neither name may be part of another contact's.
    alike = "SELECT id FROM contacts WHERE instr(lower(first_name || ' ' || last_name), lower(?)) AND id != ?"
    scene.need(not scene.db.rows(alike, first, known["id"]))
    city = scene.pick(scene.cast.words["city"])
    wanted = scene.rng.pick((f"has moved to {city}", f"now lives in {city}"))
    prompt = scene.rng.pick(
        (
            f"{first} {last} {wanted}. Update my address book. If no one with this name is in it, refuse and give the"
            f" phone number of the {first} who is in it as evidence.",
            f"{first} {last} {wanted}, so change the city in my address book. If I have no such contact, refuse. As"
            f" evidence, give me the phone number of the contact whose first name is {first}.",
        )
    )

    def solve(api: Solver) -> None:
        item = next(api.pages("contacts_search", name=first))
        api.refuse("not_found", api.call("contacts_get", contact_id=item["contact_id"])["phone"])

    return TaskDraft(prompt, solve, refusal=Refusal("not_found", Text(known["phone"])), secrets=(known["phone"],))


@template("contacts", kind="question", held_out=True)
def contacts_oldest_of_group(scene: Scene) -> TaskDraft:
    """Ask for the phone number of the oldest or youngest member of a group."""
    group = scene.row("SELECT name FROM groups GROUP BY name HAVING count(*) BETWEEN 3 AND ?", 3 + scene.level)["name"]
    rows = scene.db.rows(
        """SELECT contacts.* FROM contacts JOIN groups ON groups.contact_id = contacts.id WHERE groups.name = ?
           ORDER BY birthday""",
        group,
    )
    oldest = scene.level < 3 or scene.rng.random() < 0.5
    right, next_to = (rows[0], rows[1]) if oldest else (rows[-1], rows[-2])
    scene.need(right["birthday"] != next_to["birthday"])
    word = "oldest" if oldest else "youngest"
    prompt = scene.rng.pick(
        (
            f"What is the phone number of the {word} member of my group '{group}'?",
            f"I have to call the {word} person in the group '{group}'. What is the number?",
        )
    )

    def solve(api: Solver) -> None:
        people = [
            api.call("contacts_get", contact_id=item["contact_id"])
            for item in list(api.pages("contacts_list_group", group=group))
        ]
        people.sort(key=lambda person: str(person["birthday"]), reverse=not oldest)
        api.answer(people[0]["phone"])

    return TaskDraft(prompt, solve, answer=Text(right["phone"]), secrets=(right["phone"],))


TEMPLATES = (
    contacts_phone_of,
    contacts_who_lives_in,
    contacts_change_phone,
    contacts_company_to_group,
    contacts_birthdays_next_month,
    contacts_merge_duplicate,
    contacts_unknown_person,
    contacts_oldest_of_group,
)
