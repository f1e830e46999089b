"""Tasks of files alone, without those that may have to be refused."""

from __future__ import annotations

from ....rows.expected import Number, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.files.form import ending
from ..plan import Solver
from ..talk import Slot, Talk
from ..task import Dialogue
from . import pairs, with_people
from .finding import COUNTS, amounts, at, files, id_at, path_of, some_file

KINDS = {"jpg": "photo (.jpg)", "pdf": "PDF file", "csv": "list (.csv)", "txt": "text file (.txt)"}
PLURAL = {
    kind: name.replace("photo", "photos").replace("file", "files").replace("list", "lists")
    for kind, name in KINDS.items()
}


@template("files", kind="question")
def files_sum_of_list(scene: Scene) -> TaskDraft:
    """Ask for the sum of a list of costs: from level 2 on only some entries, from level 3 on its newest version."""
    topic = scene.pick(scene.cast.words["topic"])
    versions = sorted(files(scene, "name LIKE ?", f"{topic} costs%.csv"), key=lambda row: str(row["updated_at"]))
    newest = scene.level >= 3
    scene.need(len({row["updated_at"] for row in versions}) == len(versions) >= (2 if newest else 1))
    row = versions[-1] if newest else scene.pick(versions)
    least = scene.rng.randint(20, 90) if scene.level >= 2 else 0
    chosen = [amount for amount in amounts(row["content"]) if amount >= least * 100]
    scene.need(len(chosen) >= 2)
    which = f"the most recently changed version of my '{topic} costs' list" if newest else f"the list {path_of(row)}"
    only = f" Count only entries of at least {least}." if least else ""
    prompt = scene.rng.pick(
        (
            f"Add up the amounts in {which}.{only} What is the total?",
            f"What do the amounts in {which} add up to?{only}",
        )
    )

    def solve(api: Solver) -> None:
        if newest:
            found = next(item for item in api.pages("files_search", name=f"{topic} costs", type="csv"))["file_id"]
        else:
            found = id_at(api, row["folder"], row["name"])
        content = api.call("files_read", file_id=found)["content"]
        api.answer(sum(amount for amount in amounts(content) if amount >= least * 100) / 100)

    return TaskDraft(prompt, solve, answer=Number(sum(chosen) / 100))


@template("files", kind="action")
def files_move_largest(scene: Scene) -> TaskDraft:
    """Move the largest files of a folder to another."""
    folder = scene.row("SELECT folder FROM files GROUP BY folder HAVING count(*) > 4")["folder"]
    count = (scene.level + 1) // 2
    rows = sorted(files(scene, "folder = ?", folder), key=lambda row: -int(row["size"]))
    target = scene.row("SELECT path FROM folders WHERE path != ?", folder)["path"]
    chosen = rows[:count]
    scene.need(len(rows) > count + 1 and len({row["size"] for row in rows[: count + 1]}) == count + 1)
    names = {row["name"].lower() for row in files(scene, "folder = ?", target)}
    scene.need(not any(row["locked_by"] or row["name"].lower() in names for row in chosen))
    what = "largest file" if count == 1 else f"{COUNTS[count]} largest files"
    prompt = scene.rng.pick(
        (
            f"Move the {what} in {folder} to {target}.",
            f"{folder} takes up too much space. Move the {what} directly in it to {target}.",
        )
    )

    def solve(api: Solver) -> None:
        items = sorted(api.pages("files_list_folder", folder=folder), key=lambda item: -item["size"])[:count]
        api.rng.shuffle(items)
        for item in items:
            api.call("files_move", file_id=item["file_id"], folder=target)
        api.answer()

    must = tuple(updated("files", row["id"], f"move {row['id']}", folder=target) for row in chosen)
    return TaskDraft(prompt, solve, must=must)


@template("files", kind="mixed")
def files_trash_old(scene: Scene) -> TaskDraft:
    """Move old files of a type in a folder to the trash, and report their total size."""
    kind = scene.pick(tuple(KINDS))
    rows = files(scene, "name LIKE ?", f"%.{kind}")
    folder = scene.pick(sorted({row["folder"] for row in rows}))
    rows = [row for row in rows if row["folder"] == folder]
    until = scene.cast.day(-scene.rng.randint(15, 150))
    old = [row for row in rows if row["updated_at"] < until]
    scene.need(1 <= len(old) <= scene.level + 1 and not any(row["locked_by"] for row in old))
    scene.need(scene.level == 1 or len(old) > 1 or scene.rng.random() < 0.2)
    prompt = scene.rng.pick(
        (
            f"Move every {KINDS[kind]} directly in {folder} that was last changed before {until} to the trash, "
            "and tell me how many bytes they take up in total.",
            f"Clean up {folder} (not its subfolders): move each {KINDS[kind]} last changed before {until} to the "
            "trash. How many bytes is that in total?",
        )
    )

    def solve(api: Solver) -> None:
        items = [
            item
            for item in api.pages("files_list_folder", folder=folder)
            if ending(item["name"]) == kind and item["changed_at"] < until
        ]
        for item in items:
            api.call("files_delete", file_id=item["file_id"])
        api.answer(sum(item["size"] for item in items))

    must = tuple(inserted("trash", f"trash {row['id']}", file_id=row["id"]) for row in old)
    return TaskDraft(prompt, solve, must=must, answer=Number(sum(row["size"] for row in old)))


@template("files", kind="action")
def files_restore_one(scene: Scene) -> TaskDraft:
    """Restore the largest file of a type, or the last deleted one, from the trash; later also move it elsewhere."""
    kind, by = scene.pick(tuple(KINDS)), scene.pick(("size", "at"))
    rows = scene.db.rows(
        """SELECT files.*, trash.id AS gone, trash.created_at AS at FROM files JOIN trash ON file_id = files.id
           WHERE name LIKE ? ORDER BY files.id""",
        f"%.{kind}",
    )
    scene.need(len(rows) > 1)
    row = max(rows, key=lambda one: str(one["at"]) if by == "at" else f"{one['size']:012}")
    scene.need(sum(one[by] == row[by] for one in rows) == 1 and not row["locked_by"])
    target = scene.row("SELECT path FROM folders WHERE path != ?", row["folder"])["path"]
    for place in (row["folder"], target):
        scene.need(not files(scene, "folder = ? AND lower(name) = lower(?)", place, row["name"]))
    last = f"the {KINDS[kind]} that I deleted most recently"
    which = f"the largest {KINDS[kind]} in the trash" if by == "size" else last
    moved = scene.level >= 3
    prompt = scene.rng.pick((f"Restore {which}", f"I still need {which}, so restore it from the trash"))
    prompt += f", and move it to {target}." if moved else "."

    def solve(api: Solver) -> None:
        items = [item for item in api.pages("files_list_trash") if ending(item["name"]) == kind]
        found = max(items, key=lambda item: item["size"])["file_id"] if by == "size" else items[0]["file_id"]
        api.call("files_restore", file_id=found)
        if moved:
            api.call("files_move", file_id=found, folder=target)
        api.answer()

    must = [deleted("trash", row["gone"], "restored")]
    if moved:
        must.append(updated("files", row["id"], "moved", folder=target))
    return TaskDraft(prompt, solve, must=tuple(must))


@template("files", kind="mixed")
def files_total_into_file(scene: Scene) -> TaskDraft:
    """Add up the sizes of files of a type, and write the sum into a new file."""
    kind = scene.pick(tuple(KINDS))
    folder = scene.row("SELECT path FROM folders")["path"]
    rows = files(scene, "folder = ? AND name LIKE ?", folder, f"%.{kind}")
    since = scene.cast.day(-scene.rng.randint(40, 250))
    if scene.level >= 3:
        rows = [row for row in rows if row["updated_at"] >= since]
    scene.need(len(rows) >= 2)
    name, total = f"{kind} total.txt", sum(row["size"] for row in rows)
    scene.need(not files(scene, "name = ?", name))
    when = f" that were changed on {since} or later" if scene.level >= 3 else ""
    prompt = (
        f"How many bytes do the {PLURAL[kind]} directly in {folder}{when} take up in total? Write the "
        f"number, and nothing else, to a new file '{name}' in {folder}, and also tell me."
    )

    def solve(api: Solver) -> None:
        items = [item for item in api.pages("files_list_folder", folder=folder) if ending(item["name"]) == kind]
        found = sum(item["size"] for item in items if scene.level < 3 or item["changed_at"] >= since)
        api.call("files_write", folder=folder, name=name, content=str(found))
        api.answer(found)

    must = (inserted("files", "written", folder=folder, name=name, content=Number(total)),)
    return TaskDraft(prompt, solve, must=must, answer=Number(total))


@template("files", kind="dialogue")
def files_delete_agreed(scene: Scene) -> Dialogue:
    """Ask the user which file to delete, state its size, and delete it after the user agrees."""
    row = some_file(scene, "locked_by = ''")
    prompt = scene.rng.pick(
        (
            "I would like to get rid of a file. Ask me for its name and folder, then tell me its name and its exact "
            "size in bytes, and delete it only after I agree.",
            "A file can be moved to the trash. Ask me which one and where it is. Before you move it, tell me its name "
            "and its exact size in bytes, and wait for my approval.",
        )
    )
    slots = (
        Slot(("which file", "name", "called"), f"It is called {row['name']}."),
        Slot(("folder", "where"), f"It is in {row['folder']}."),
    )

    def solve(api: Solver) -> None:
        api.say(api.rng.pick(("Which file is it, and in which folder?", "What is its name, and where is it?")))
        found = at(api, row["folder"], row["name"])
        assert found is not None
        api.say(f"I am about to delete {found['name']}, which has {found['size']} bytes. Is that right?")
        api.call("files_delete", file_id=found["file_id"])
        api.answer()

    others = scene.db.rows("SELECT DISTINCT name FROM files WHERE instr(name, ?) = 0 ORDER BY name", row["name"])
    rivals = tuple(other["name"] for other in others if other["name"] not in row["name"])
    talk = Talk(slots, confirm=(row["name"], str(row["size"])), rivals=rivals)
    return Dialogue(prompt, solve, must=(inserted("trash", "trashed", file_id=row["id"]),), talk=talk)


TEMPLATES = (
    files_sum_of_list,
    files_move_largest,
    files_trash_old,
    files_restore_one,
    files_total_into_file,
    files_delete_agreed,
    *pairs.TEMPLATES,
    *with_people.TEMPLATES,
)
