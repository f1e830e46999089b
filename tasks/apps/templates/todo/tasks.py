"""Tasks of one or two to-do items; those of level 1 are as short as tasks can be."""

from __future__ import annotations

from ....rows.expected import Refusal, Text, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..calendar.drawing import said
from ..plan import Solver
from .across import ACROSS
from .drawing import date_text, item_drawn, item_found, items_where, list_number
from .many import MANY

NO_LIST = (
    "If there is no list with exactly that name, do not create one. Instead, refuse and name the list with the most "
    "open items."
)


@template("todo", kind="action")
def todo_complete_item(scene: Scene) -> TaskDraft:
    """Complete an item; from level 3 on, another list has the same title."""
    if scene.level < 3:
        row = item_drawn(scene, "done = 0")
        prompt = scene.pick((f"Complete the item '{row['title']}'.", f"'{row['title']}' is done. Check it off."))
    else:
        row = _one_of_several(scene)
        prompt = scene.pick(
            (
                f"Complete the item '{row['title']}' on the list '{row['list']}'.",
                f"'{row['title']}' is done. Check it off on my list '{row['list']}'; other lists may have it too.",
            )
        )

    def solve(api: Solver) -> None:
        items = api.pages("todo_search", words=row["title"], done=False)
        found = next(
            item for item in items if item["title"] == row["title"] and (scene.level < 3 or item["list"] == row["list"])
        )
        api.call("todo_complete", item_id=found["item_id"])
        api.answer()

    return TaskDraft(prompt, solve, must=(updated("todo_items", row["id"], "done", done=1),))


@template("todo", kind="action")
def todo_add_item(scene: Scene) -> TaskDraft:
    """Add an item to a list; higher levels give more details."""
    name = scene.row("SELECT * FROM todo_lists")
    title = _new_title(scene)
    about, asked = {"title": title}, f"Add '{title}' to the list '{name['name']}'."
    if scene.level >= 2:
        about["due"] = scene.cast.day(scene.rng.randint(1, 40))
        asked += f" It is due on {said(scene, about['due'])}."
    if scene.level >= 3:
        about["priority"] = scene.pick(("low", "high"))
        asked += f" Its priority is {about['priority']}."
        if scene.rng.random() < 0.5:
            asked = f"{asked} {NO_LIST}"
    if scene.level >= 4:
        about["notes"] = f"Remember the {scene.pick(scene.cast.words['thing'])}."
        asked += f" Put this in its notes: {about['notes']}"

    def solve(api: Solver) -> None:
        api.call("todo_add", list_id=list_number(api, name["name"]), **about)
        api.answer()

    wanted = {"due": "", "priority": "normal", **about, "title": Text(title)}
    if "notes" in about:
        wanted["notes"] = Text(about["notes"])
    return TaskDraft(asked, solve, must=(inserted("todo_items", "item", list_id=name["id"], done=0, **wanted),))


@template("todo", kind="question")
def todo_due_of(scene: Scene) -> TaskDraft:
    """Ask for the due date of an item; from level 3 on, another list has the same title."""
    if scene.level < 3:
        row = item_drawn(scene, "due != ''")
        prompt = scene.pick((f"When is '{row['title']}' due?", f"What is the due date of the item '{row['title']}'?"))
    else:
        row = _one_of_several(scene)
        scene.need(bool(row["due"]))
        prompt = f"When is the open item '{row['title']}' on my list '{row['list']}' due?"
    form = "" if scene.level == 1 else " Answer with a date such as 2024-03-09."

    def solve(api: Solver) -> None:
        items = list(api.pages("todo_search", words=row["title"]))
        alike = [item for item in items if item["title"] == row["title"]]
        if scene.level >= 3:
            alike = [item for item in alike if item["list"] == row["list"] and not item["done"]]
        api.answer(alike[0]["due"])

    return TaskDraft(prompt + form, solve, answer=date_text(row["due"]), secrets=(row["due"],))


@template("todo", kind="action")
def todo_change_item(scene: Scene) -> TaskDraft:
    """Change the due date of an item, and at higher levels its priority."""
    row = item_drawn(scene, "done = 0")
    due = scene.cast.day(scene.rng.randint(1, 40))
    scene.need(due != row["due"])
    changed, asked = {"due": due}, f"due on {said(scene, due)}"
    if scene.level >= 2:
        changed["priority"] = scene.pick([one for one in ("low", "normal", "high") if one != row["priority"]])
        asked += f" and has {changed['priority']} priority"
    prompt = scene.pick((f"From now on, '{row['title']}' is {asked}.", f"The item '{row['title']}' is now {asked}."))
    if scene.level >= 3:
        changed["title"] = f"{row['title']} again"
        prompt += f" Its new title is '{changed['title']}'."

    def solve(api: Solver) -> None:
        api.call("todo_update", item_id=item_found(api, row["title"])["item_id"], **changed)
        api.answer()

    return TaskDraft(
        f"{prompt} Please update it.", solve, must=(updated("todo_items", row["id"], "changed", **changed),)
    )


@template("todo", kind="mixed", held_out=True)
def todo_reopen_item(scene: Scene) -> TaskDraft:
    """Reopen a completed item with a later due date, and report its old one."""
    row = item_drawn(scene, "done = 1 AND due != ''")
    due = scene.cast.day(scene.rng.randint(1, 40))
    scene.need(due != row["due"])
    prompt = (
        f"'{row['title']}' is checked off, but it is not done. Reopen it, make it due on {said(scene, due)}, and "
        "tell me its previous due date, such as 2024-03-09."
    )

    def solve(api: Solver) -> None:
        found = item_found(api, row["title"])
        steps = [("todo_reopen", {}), ("todo_update", {"due": due})]
        for name, rest in api.rng.sample(steps, 2):
            api.call(name, item_id=found["item_id"], **rest)
        api.answer(found["due"])

    must = (updated("todo_items", row["id"], "open again", done=0, due=due),)
    return TaskDraft(prompt, solve, must=must, answer=date_text(row["due"]), secrets=(row["due"],))


@template("todo", kind="refusal")
def todo_done_already(scene: Scene) -> TaskDraft:
    """Refuse to postpone a completed item."""
    row = item_drawn(scene, "done = 1 AND due != ''")
    prompt = _put_off_asked(scene, row["title"], scene.cast.day(scene.rng.randint(31, 60)))

    def solve(api: Solver) -> None:
        api.refuse("conflict", item_found(api, row["title"])["due"])

    return TaskDraft(prompt, solve, refusal=Refusal("conflict", date_text(row["due"])), secrets=(row["due"],))


@template("todo", kind="action")
def todo_put_off(scene: Scene) -> TaskDraft:
    """Postpone an item if it is open, and it is."""
    row = item_drawn(scene, "done = 0 AND due != ''")
    due = scene.cast.day(scene.rng.randint(31, 60))
    prompt = _put_off_asked(scene, row["title"], due)

    def solve(api: Solver) -> None:
        api.call("todo_update", item_id=item_found(api, row["title"])["item_id"], due=due)
        api.answer()

    return TaskDraft(prompt, solve, must=(updated("todo_items", row["id"], "put off", due=due),))


@template("todo", kind="refusal")
def todo_no_such_list(scene: Scene) -> TaskDraft:
    """Refuse to add an item to a list that does not exist."""
    names = {row["name"] for row in scene.db.rows("SELECT name FROM todo_lists")}
    missing = scene.pick([name for name in ("Groceries", "Work", "Travel", "Garden", "Books") if name not in names])
    counts = scene.db.rows(
        """SELECT todo_lists.name, count(*) AS n FROM todo_items JOIN todo_lists ON todo_lists.id = list_id
           WHERE done = 0 GROUP BY list_id ORDER BY n DESC"""
    )
    scene.need(counts[0]["n"] > counts[1]["n"])
    fullest, title = counts[0]["name"], _new_title(scene)
    prompt = f"Add '{title}' to my list '{missing}'. {NO_LIST}"

    def solve(api: Solver) -> None:
        api.refuse("not_found", max(api.call("todo_lists"), key=lambda found: found["open"])["name"])

    return TaskDraft(prompt, solve, refusal=Refusal("not_found", Text(fullest)))


def _new_title(scene: Scene) -> str:
    """Draw a title that no item has."""
    words = {kind: scene.pick(scene.cast.words[kind]) for kind in ("thing", "topic")}
    title = scene.pick(("Buy {thing}", "Get {thing}", "Plan the {topic}", "Sort the {thing}")).format(**words)
    scene.need(not items_where(scene, "lower(title) = lower(?)", title))
    return title


def _one_of_several(scene: Scene) -> dict[str, str]:
    """Draw an open item whose title occurs again, on another list or completed on the same list."""
    row = scene.row(
        """SELECT todo_items.*, todo_lists.name AS list FROM todo_items JOIN todo_lists ON todo_lists.id = list_id
           WHERE done = 0 AND (SELECT count(*) FROM todo_items AS others WHERE others.title = todo_items.title) > 1"""
    )
    alike = items_where(scene, "title = ? AND list_id = ? AND done = 0", row["title"], row["list_id"])
    scene.need(len(alike) == 1)
    return row


def _put_off_asked(scene: Scene, title: str, due: str) -> str:
    return scene.pick(
        (
            f"Make '{title}' due on {said(scene, due)}. If it is already checked off, change nothing: refuse and give "
            "me its due date, such as 2024-03-09.",
            f"If '{title}' is still open, postpone it to {said(scene, due)}. If it is already done, refuse and give "
            "me its due date, such as 2024-03-09.",
        )
    )


TEMPLATES = (
    todo_complete_item,
    todo_add_item,
    todo_due_of,
    todo_change_item,
    todo_reopen_item,
    todo_done_already,
    todo_put_off,
    todo_no_such_list,
    *MANY,
    *ACROSS,
)
