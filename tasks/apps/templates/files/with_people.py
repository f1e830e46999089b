"""Tasks of files together with the address book and the mailbox."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Number, Refusal, Text, deleted, inserted
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.files.form import THERE
from ...simulators.mail.app import addresses
from ..contacts.finding import email_of, full_name
from ..plan import Solver
from .finding import at, files, id_at, path_of, some_file, someone


@template("files", "contacts", kind="action")
def files_share_group(scene: Scene) -> TaskDraft:
    """Share a file with all members of a group who do not have access yet."""
    row = some_file(scene, "id IN (SELECT file_id FROM shares)") if scene.level > 1 else some_file(scene, "1")
    group = scene.row("SELECT DISTINCT name FROM groups ORDER BY name")["name"]
    access = scene.pick(("view", "edit"))
    people = scene.db.rows(
        """SELECT email FROM contacts WHERE id IN (SELECT contact_id FROM groups WHERE name = ?)
           AND email NOT IN (SELECT email FROM shares WHERE file_id = ?) ORDER BY id""",
        group,
        row["id"],
    )
    scene.need(1 <= len(people) <= 3 + scene.level)
    allowed = "view" if access == "view" else "edit"
    prompt = scene.rng.pick(
        (
            f"Share {path_of(row)} with everyone in the group '{group}' so that they can {allowed} it. Members who "
            "already have access keep the access they have.",
            f"Everyone in my group '{group}' should be able to {allowed} {path_of(row)}. Change nothing for members "
            "who already have access.",
        )
    )

    def solve(api: Solver) -> None:
        id = id_at(api, row["folder"], row["name"])
        have = {share["email"] for share in api.call("files_details", file_id=id)["shared_with"]}
        members = list(api.pages("contacts_list_group", group=group))
        api.rng.shuffle(members)
        for item in members:
            if item["email"] not in have:
                api.call("files_share", file_id=id, email=item["email"], access=access)
        api.answer()

    must = tuple(
        inserted("shares", f"shared with {one['email']}", file_id=row["id"], email=one["email"], access=access)
        for one in people
    )
    return TaskDraft(prompt, solve, must=must)


@template("files", "contacts", kind="mixed")
def files_unshare_person(scene: Scene) -> TaskDraft:
    """Stop sharing all files with a contact, and report their total size."""
    name, email = someone(scene)
    query = f"""SELECT files.size, access, shares.id FROM files JOIN shares ON file_id = files.id
                WHERE {THERE} AND email = ? ORDER BY shares.id"""
    rows = scene.db.rows(query, email)
    edit = scene.level >= 3
    chosen = [row for row in rows if not edit or row["access"] == "edit"]
    scene.need(bool(chosen))
    what = f"files that {name} can edit" if edit else f"files that are shared with {name}"
    kept = ", but not files that are shared for viewing only" if edit else ""
    prompt = (
        f"Stop sharing all {what}{kept}. Ignore files in the trash. Tell me the total size in bytes of the files that "
        "you stopped sharing."
    )

    def solve(api: Solver) -> None:
        who = email_of(api, name)
        items = [i for i in api.pages("files_list_shared", email=who) if not edit or i["access"] == "edit"]
        for item in items:
            api.call("files_unshare", file_id=item["file_id"], email=who)
        api.answer(sum(item["size"] for item in items))

    must = tuple(deleted("shares", row["id"]) for row in chosen)
    return TaskDraft(prompt, solve, must=must, answer=Number(sum(row["size"] for row in chosen)))


@template("files", "contacts", "mail", kind="action")
def files_mail_text(scene: Scene) -> TaskDraft:
    """Email the text of a file to a contact; from level 3 on, the newest of several with similar names."""
    newest = scene.level >= 3
    notes = files(scene, "name LIKE '% notes%.txt' AND name NOT LIKE 'old %'")
    topics = [row["name"].split(" notes")[0] for row in notes]
    topic = scene.pick(sorted({one for one in topics if topics.count(one) > 1} if newest else set(topics)))
    rows = sorted(
        (row for row in notes if row["name"].startswith(f"{topic} notes")), key=lambda row: str(row["updated_at"])
    )
    scene.need(len({row["updated_at"] for row in rows}) == len(rows))
    row = rows[-1] if newest else scene.pick(rows)
    name, email = someone(scene)
    which = (
        f"the most recently changed file whose name begins with '{topic} notes'"
        if newest
        else f"the file {path_of(row)}"
    )
    prompt = scene.rng.pick(
        (
            f"Send {name} an email with the subject 'Notes'. Its text must be the full content of {which}, and "
            "nothing else.",
            f"{name} needs what I wrote in {which}. Email its full text and nothing else, with the subject 'Notes'.",
        )
    )

    def solve(api: Solver) -> None:
        if newest:
            id = next(
                item["file_id"]
                for item in api.pages("files_search", name=f"{topic} notes")
                if item["name"].startswith(f"{topic} notes")
            )
        else:
            id = id_at(api, row["folder"], row["name"])
        body = api.call("files_read", file_id=id)["content"]
        api.call("mail_send", to=[email_of(api, name)], subject="Notes", body=body)
        api.answer()

    sent = {"folder": "sent", "recipients": addresses([email]), "subject": Text("Notes")}
    must = inserted("messages", "mailed", **sent, body=Text(row["content"]))
    return TaskDraft(prompt, solve, must=(must,))


@template("files", "contacts", "mail", kind="action")
def files_save_message(scene: Scene) -> TaskDraft:
    """Save the text of a contact's newest message as a file."""
    name, email = someone(scene)
    rows = scene.db.rows("SELECT * FROM messages WHERE sender = ? AND folder != 'trash' ORDER BY sent_at DESC", email)
    scene.need(bool(rows) and (len(rows) == 1 or rows[0]["sent_at"] != rows[1]["sent_at"]))
    folder = scene.row("SELECT path FROM folders")["path"]
    file = f"{scene.rng.pick(('message', 'letter', 'mail'))} from {name.split()[0]}.txt"
    scene.need(not files(scene, "name = ?", file))
    prompt = scene.rng.pick(
        (
            f"Save the text of the newest message I have from {name} (ignoring the trash) as '{file}' in {folder}, "
            "word for word.",
            f"Take the last email that {name} sent me, ignoring the trash, and write its text unchanged to a new "
            f"file '{file}' in {folder}.",
        )
    )

    def solve(api: Solver) -> None:
        found = next(api.pages("mail_search", sender=email_of(api, name)))
        body = api.call("mail_read", message_id=found["message_id"])["body"]
        api.call("files_write", folder=folder, name=file, content=body)
        api.answer()

    must = inserted("files", "saved", folder=folder, name=file, content=Text(rows[0]["body"]))
    return TaskDraft(prompt, solve, must=(must,))


@template("files", "contacts", kind="action")
def files_share_minutes(scene: Scene) -> TaskDraft:
    """Share the minutes of a meeting with its participants."""
    row, by_topic = some_file(scene, "name LIKE 'minutes %.md'"), scene.level >= 3
    topic = row["content"].split("Topic: ")[1].splitlines()[0]
    present = row["content"].split("Present: ")[1].splitlines()[0].split(", ")
    scene.need(len(present) <= scene.level + 2)
    if by_topic:
        scene.need(len(files(scene, "content LIKE ?", f"%Topic: {topic}\n%")) == 1)
    people = {full_name(one): one["email"] for one in scene.db.rows("SELECT * FROM contacts")}
    scene.need(set(present) <= set(people))
    emails = [people[name] for name in present]
    shared = {one["email"] for one in scene.db.rows("SELECT email FROM shares WHERE file_id = ?", row["id"])}
    missing = [email for email in emails if email not in shared]
    scene.need(bool(missing))
    which = f"the minutes of the meeting whose topic was the {topic}" if by_topic else path_of(row)
    prompt = scene.rng.pick(
        (
            f"Give everyone who is listed as present in {which} access to view that file, if they can't view it yet.",
            f"Check {which} to see who was present, and let them view that file. Some may already have access.",
        )
    )

    def solve(api: Solver) -> None:
        if by_topic:
            id = next(api.pages("files_search", name="minutes", words=f"Topic: {topic}"))["file_id"]
        else:
            id = id_at(api, row["folder"], row["name"])
        content = api.call("files_read", file_id=id)["content"]
        have = {share["email"] for share in api.call("files_details", file_id=id)["shared_with"]}
        for name in content.split("Present: ")[1].splitlines()[0].split(", "):
            email = email_of(api, name)
            if email not in have:
                api.call("files_share", file_id=id, email=email, access="view")
        api.answer()

    columns = {"file_id": row["id"], "access": "view"}
    must = tuple(inserted("shares", f"shared with {email}", **columns, email=email) for email in missing)
    return TaskDraft(prompt, solve, must=must)


def _share_wanted(scene: Scene, row: Row, folder: str) -> tuple[str, str, str]:
    """Draw a contact with whom to share a file, their email address, and the prompt."""
    name, email = someone(scene)
    shared = scene.db.row("SELECT id FROM shares WHERE file_id = ? AND email = ?", row["id"], email)
    scene.need(shared is None and len(files(scene, "name = ?", row["name"])) == 1)
    rest = "If it is no longer there, share nothing: refuse and give the exact time when the file with that name, "
    rest += "wherever it is now, was last changed."
    prompt = scene.rng.pick(
        (
            f"Let {name} view the file '{row['name']}' in {folder}. {rest}",
            f"Share '{row['name']}' in {folder} with {name} for viewing. {rest}",
        )
    )
    return name, email, prompt


@template("files", "contacts", kind="action")
def files_share_from(scene: Scene) -> TaskDraft:
    """Share a file that is where the user expects it."""
    row = some_file(scene, "1")
    name, email, prompt = _share_wanted(scene, row, row["folder"])

    def solve(api: Solver) -> None:
        id = id_at(api, row["folder"], row["name"])
        api.call("files_share", file_id=id, email=email_of(api, name), access="view")
        api.answer()

    must = inserted("shares", "shared", file_id=row["id"], email=email, access="view")
    return TaskDraft(prompt, solve, must=(must,))


@template("files", "contacts", kind="refusal")
def files_share_moved(scene: Scene) -> TaskDraft:
    """Refuse to share a file that is not where the user expects it."""
    row = some_file(scene, "1")
    folder = scene.row("SELECT path FROM folders WHERE path != ?", row["folder"])["path"]
    _, _, prompt = _share_wanted(scene, row, folder)

    def solve(api: Solver) -> None:
        assert at(api, folder, row["name"]) is None
        found = next(item for item in api.pages("files_search", name=row["name"]) if item["name"] == row["name"])
        api.refuse("not_found", found["changed_at"])

    changed = row["updated_at"]
    spoken = (changed.replace("T", " "), f"{changed}:00", f"{changed.replace('T', ' ')}:00")
    return TaskDraft(prompt, solve, refusal=Refusal("not_found", Text(changed, spoken)), secrets=(changed,))


TEMPLATES = (
    files_share_group,
    files_unshare_person,
    files_mail_text,
    files_save_message,
    files_share_minutes,
    files_share_from,
    files_share_moved,
)
