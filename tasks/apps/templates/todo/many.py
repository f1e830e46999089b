"""Tasks of many to-do items: overdue ones, and whole lists."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Listing, Number, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ..calendar.drawing import said
from ..calendar.times import shifted
from ..plan import Solver
from .drawing import items_where, list_number

OVERDUE = "done = 0 AND due != '' AND due < ?"


@template("todo", "account", kind="question")
def todo_list_overdue(scene: Scene) -> TaskDraft:
    """Ask for the overdue items."""
    row = scene.row("SELECT * FROM todo_lists")
    rows = items_where(scene, f"{OVERDUE} AND list_id = ?", scene.cast.day(0), row["id"])
    titles = [found["title"] for found in rows]
    scene.need(1 <= len(titles) <= 2 + scene.level and len({title.lower() for title in titles}) == len(titles))
    prompt = scene.pick(
        (
            f"Which open items on my list '{row['name']}' are overdue today? Give me their titles as a list.",
            f"List the titles of all items on '{row['name']}' that are not done and were due before today.",
        )
    )

    def solve(api: Solver) -> None:
        today = api.call("account_time")["now"][:10]
        items = list(api.pages("todo_items", list_id=list_number(api, row["name"]), done=False, due_until=today))
        api.answer([item["title"] for item in items if item["due"] < today])

    return TaskDraft(prompt, solve, answer=Listing(tuple(titles)))


@template("todo", kind="question")
def todo_count_due(scene: Scene) -> TaskDraft:
    """Ask how many open items are due within some days, and which list has most of them."""
    first = scene.rng.randint(-25, 5)
    since, until = scene.cast.day(first), scene.cast.day(first + 12 + 3 * scene.level)
    priority = scene.pick(("normal", "high", "low")) if scene.level >= 3 else None
    where = "done = 0 AND due BETWEEN ? AND ? AND (? IS NULL OR priority = ?)"
    rows = items_where(scene, where, since, until, priority, priority)
    names = sorted({row["list"] for row in rows})
    counts = sorted(((_count(rows, name), name) for name in names), reverse=True)
    scene.need(len(rows) >= 3 and len(counts) > 1 and counts[0][0] > counts[1][0])
    which = f" with {priority} priority" if priority else ""
    prompt = (
        f"Look at all my lists: how many open items{which} are due from {said(scene, since)} to {said(scene, until)} "
        "(inclusive), and which list has the most of them? Answer with a list of two values: the number and the name "
        "of that list."
    )

    def solve(api: Solver) -> None:
        conditions = {"priority": priority} if priority else {}
        items = list(api.pages("todo_search", done=False, due_since=since, due_until=until, **conditions))
        lists = [item["list"] for item in items]
        api.answer([str(len(items)), max(sorted(set(lists)), key=lists.count)])

    return TaskDraft(prompt, solve, answer=Listing((str(len(rows)), counts[0][1])))


@template("todo", "account", kind="mixed")
def todo_raise_overdue(scene: Scene) -> TaskDraft:
    """Raise the priority of overdue tasks."""
    today = scene.cast.day(0)
    row = scene.row("SELECT * FROM todo_lists")
    rows = items_where(scene, f"{OVERDUE} AND list_id = ? AND priority != 'high'", today, row["id"])
    all = items_where(scene, f"{OVERDUE} AND list_id = ?", today, row["id"])
    scene.need(1 <= len(rows) <= 1 + scene.level and (scene.level < 3 or len(all) > len(rows)))
    oldest = min(found["due"] for found in all)
    prompt = (
        f"Set the priority of every open item on my list '{row['name']}' that was due before today to high, and tell "
        "me the earliest due date among these items, such as 2024-03-09. Items that already have high priority count "
        "too."
    )

    def solve(api: Solver) -> None:
        now = api.call("account_time")["now"][:10]
        items = list(api.pages("todo_items", list_id=list_number(api, row["name"]), done=False, due_until=now))
        late = [item for item in items if item["due"] < now]
        for item in late:
            if item["priority"] != "high":
                api.call("todo_update", item_id=item["item_id"], priority="high")
        api.answer(min(item["due"] for item in late))

    must = tuple(updated("todo_items", found["id"], f"raised {found['id']}", priority="high") for found in rows)
    return TaskDraft(prompt, solve, must=must, answer=Text(oldest), secrets=(oldest,))


@template("todo", kind="action")
def todo_postpone_list(scene: Scene) -> TaskDraft:
    """Postpone all items of a list that are due within some days by a week."""
    row = scene.row("SELECT * FROM todo_lists")
    first, days = scene.rng.randint(0, 12), scene.pick((7, 10, 14))
    since, until = scene.cast.day(first), scene.cast.day(first + 4 + 3 * scene.level)
    rows = items_where(scene, "done = 0 AND list_id = ? AND due BETWEEN ? AND ?", row["id"], since, until)
    scene.need(min(scene.level, 2) <= len(rows) <= 1 + scene.level)
    prompt = scene.pick(
        (
            f"Postpone every open item on '{row['name']}' that is due from {said(scene, since)} to "
            f"{said(scene, until)} (inclusive) by {days} days.",
            f"I need {days} more days for everything on the list '{row['name']}' that is open and due from "
            f"{said(scene, since)} to {said(scene, until)} (inclusive). Change the due dates.",
        )
    )

    def solve(api: Solver) -> None:
        number = list_number(api, row["name"])
        items = list(api.pages("todo_items", list_id=number, done=False, due_since=since, due_until=until))
        for item in api.rng.sample(items, len(items)):
            api.call("todo_update", item_id=item["item_id"], due=shifted(item["due"], days=days)[:10])
        api.answer()

    must = tuple(
        updated("todo_items", found["id"], f"later {found['id']}", due=shifted(found["due"], days=days)[:10])
        for found in rows
    )
    return TaskDraft(prompt, solve, must=must)


@template("todo", kind="mixed")
def todo_clear_done(scene: Scene) -> TaskDraft:
    """Delete the completed items of a list, and report the last one."""
    row = scene.row("SELECT * FROM todo_lists")
    where = "done = 1 AND list_id = ?" + (" AND due != ''" if scene.level >= 3 else "")
    rows = items_where(scene, where, row["id"])
    scene.need(1 <= len(rows) <= 2 + scene.level)
    which = "that is done and had a due date" if scene.level >= 3 else "that is done"
    open = _open(scene, row["id"])
    scene.need(open > 3)
    prompt = scene.pick(
        (
            f"Delete everything from the list '{row['name']}' {which}. How many open items are on it?",
            f"Clean up '{row['name']}': delete every item {which}, and tell me how many of its items are still open.",
        )
    )

    def solve(api: Solver) -> None:
        found = next(one for one in api.call("todo_lists") if one["name"] == row["name"])
        for item in list(api.pages("todo_items", list_id=found["list_id"], done=True)):
            if item["due"] or scene.level < 3:
                api.call("todo_delete", item_id=item["item_id"])
        api.answer(found["open"])

    must = tuple(deleted("todo_items", found["id"]) for found in rows)
    return TaskDraft(prompt, solve, must=must, answer=Number(open))


@template("todo", kind="action")
def todo_move_about(scene: Scene) -> TaskDraft:
    """Move all open items about a topic to another list, which the agent has to create at higher levels."""
    topic, fresh = scene.pick(scene.cast.words["topic"]), scene.level >= 3
    other = scene.row("SELECT * FROM todo_lists")
    name = f"All about the {topic}" if fresh else other["name"]
    where = "done = 0 AND instr(lower(title), ?)" + ("" if fresh else f" AND list_id != {other['id']}")
    rows = items_where(scene, where, topic)
    scene.need(min(scene.level, 2) <= len(rows) <= 1 + scene.level)
    to = f"a new list '{name}'" if fresh else f"the list '{name}'"
    prompt = scene.pick(
        (
            f"Move all open items with '{topic}' in their title to {to}.",
            f"I want every open item with the word '{topic}' in its title on {to}. Move them there.",
        )
    )

    def solve(api: Solver) -> None:
        number = api.call("todo_create_list", name=name)["list_id"] if fresh else list_number(api, name)
        for item in list(api.pages("todo_search", words=topic, done=False)):
            if topic in item["title"].lower() and item["list_id"] != number:
                api.call("todo_move", item_id=item["item_id"], list_id=number)
        api.answer()

    number = scene.next_id("todo_lists") if fresh else other["id"]
    new = (inserted("todo_lists", "list", name=Text(name)),) if fresh else ()
    moved = tuple(updated("todo_items", row["id"], f"moved {row['id']}", list_id=number) for row in rows)
    return TaskDraft(prompt, solve, must=(*new, *moved))


@template("todo", kind="action", held_out=True)
def todo_delete_whole_list(scene: Scene) -> TaskDraft:
    """Delete a list: move its open items to another one, and delete the completed ones."""
    row = scene.row("SELECT * FROM todo_lists")
    other = scene.row("SELECT * FROM todo_lists WHERE id != ?", row["id"])
    items = items_where(scene, "list_id = ?", row["id"])
    scene.need(2 <= len(items) <= 5 + 3 * scene.level)
    prompt = (
        f"I no longer need the list '{row['name']}'. Move its open items to '{other['name']}', delete the completed "
        "ones, and then delete the list."
    )

    def solve(api: Solver) -> None:
        numbers = {found["name"]: found["list_id"] for found in api.call("todo_lists")}
        for item in list(api.pages("todo_items", list_id=numbers[row["name"]])):
            if item["done"]:
                api.call("todo_delete", item_id=item["item_id"])
            else:
                api.call("todo_move", item_id=item["item_id"], list_id=numbers[other["name"]])
        api.call("todo_delete_list", list_id=numbers[row["name"]])
        api.answer()

    must = [
        deleted("todo_items", item["id"])
        if item["done"]
        else updated("todo_items", item["id"], f"moved {item['id']}", list_id=other["id"])
        for item in items
    ]
    return TaskDraft(prompt, solve, must=(*must, deleted("todo_lists", row["id"])))


def _count(rows: list[Row], name: str) -> int:
    return sum(row["list"] == name for row in rows)


def _open(scene: Scene, list_id: int) -> int:
    return int(scene.db.value("SELECT count(*) FROM todo_items WHERE list_id = ? AND done = 0", list_id))


MANY = (
    todo_list_overdue,
    todo_count_due,
    todo_raise_overdue,
    todo_postpone_list,
    todo_clear_done,
    todo_move_about,
    todo_delete_whole_list,
)
