"""Tasks of the forum for a moderator."""

from __future__ import annotations

from typing import Any

from ....rows.expected import Evidence, Must, Refusal, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.accounts import account_of
from ...simulators.forum.rows import REASONS, REPORTS, THREADS
from ..walk import Walk
from .walking import open_thread


@template("forum", kind="moderation")
def forum_moderate(scene: Scene) -> TaskDraft:
    """Lock, pin or move a thread of the user's board, or undo that; at higher levels two of these."""
    me = account_of(scene.db, "forum")["id"]
    mine = "SELECT id FROM forum_boards WHERE moderator_id = ?"
    row = scene.row(f"SELECT * FROM ({THREADS}) WHERE board_id IN ({mine})", me)
    target = scene.row("SELECT * FROM forum_boards WHERE id <> ?", row["board_id"])
    said = {
        "lock": "allow replies again" if row["locked"] else "lock it so that no one can reply",
        "pin": "unpin it" if row["pinned"] else "pin it so that it stays on top",
        "move": f"move it to the board '{target['name']}'",
    }
    acts = scene.rng.sample(tuple(said), 1 if scene.level < 3 else 2)
    changed: dict[str, Any] = {}
    for act in acts:
        columns = {"lock": ("locked", 1 - row["locked"]), "pin": ("pinned", 1 - row["pinned"])}
        name, value = columns.get(act, ("board_id", target["id"]))
        changed[name] = value
    what = " and ".join(said[act] for act in acts)
    prompt = f"I am a moderator in the forum. For the thread '{row['title']}' in '{row['board']}', please {what}."

    def solve(walk: Walk) -> None:
        open_thread(walk, row["title"])
        if "lock" in acts:
            walk.click(walk.word("unlock" if row["locked"] else "lock"))
        if "pin" in acts:
            walk.click(walk.word("unpin" if row["pinned"] else "pin"))
        if "move" in acts:  # last, since the user may not moderate the other board
            walk.choose(walk.word("target"), target["name"])
            walk.click(walk.word("move"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(updated("forum_threads", row["id"], "thread", **changed),))


@template("forum", kind="refusal")
def forum_foreign_board(scene: Scene) -> TaskDraft:
    """Lock or pin a thread. In another moderator's board this is impossible; the evidence is the moderator's name."""
    me, act = account_of(scene.db, "forum")["id"], scene.rng.pick(("lock", "pin"))
    column, own = f"{act}{'n' * (act == 'pin')}ed", scene.rng.random() < 0.45
    sql = f"SELECT thread.*, moderator_id FROM ({THREADS}) AS thread JOIN forum_boards ON forum_boards.id = board_id"
    row = scene.row(f"{sql} WHERE NOT {column} AND (moderator_id = ?) = ?", me, own)
    moderator = str(scene.db.value("SELECT name FROM accounts WHERE id = ?", row["moderator_id"]))
    prompt = (
        f"{act.capitalize()} the thread '{row['title']}' in the forum. If my account does not allow that, say so"
        " and give the name of the moderator of its board."
    )

    def solve(walk: Walk) -> None:
        open_thread(walk, row["title"])
        if walk.sees(walk.word("moderating")):
            walk.click(walk.word(act))
            walk.answer()
        else:
            walk.click(walk.fact(walk.word("board")))
            walk.refuse(walk.fact(walk.word("moderator")))

    if own:
        return TaskDraft(prompt, solve, must=(updated("forum_threads", row["id"], column, **{column: 1}),))
    others = scene.texts("SELECT DISTINCT accounts.name FROM accounts JOIN forum_boards ON moderator_id = accounts.id")
    return TaskDraft(prompt, solve, refusal=Refusal("not_allowed", Evidence((moderator,), others)))


@template("forum", kind="moderation", held_out=True)
def forum_decide(scene: Scene) -> TaskDraft:
    """Uphold the open reports for one reason, at higher levels dismiss those for another, and leave the others."""
    me = account_of(scene.db, "forum")["id"]
    rows = scene.db.rows(f"SELECT * FROM ({REPORTS}) WHERE moderator_id = ? AND state = 'open'", me)
    right, wrong = scene.rng.sample(REASONS, 2)
    decided = {right: "upheld"} if scene.level < 3 else {right: "upheld", wrong: "dismissed"}
    chosen = [row for row in rows if row["reason"] in decided]
    scene.need({row["reason"] for row in chosen} == set(decided) and len(chosen) < min(5, len(rows)))
    also = f" Those with the reason '{wrong}' are unfounded: dismiss them." if scene.level > 2 else ""
    prompt = (
        f"Some reports in the forum are waiting for my decision as a moderator. Those with the reason '{right}' are"
        f" justified: uphold them so that the posts are hidden.{also} Leave all others open."
    )
    must: list[Must] = []
    for row in chosen:
        state = decided[row["reason"]]
        must.append(updated("forum_reports", row["id"], f"report {row['id']}", state=state))
        if state == "upheld":
            must.append(updated("forum_posts", row["post_id"], f"post {row['post_id']}", hidden=1))

    def solve(walk: Walk) -> None:
        walk.goto("forum")
        walk.click(walk.word("reports"))
        head = walk.word("reason")
        found = {one.name: decided[one[head]] for one in walk.all_entries() if one[head] in decided}
        for name, state in found.items():
            walk.click(walk.word("reports"), first=True)
            walk.click(name, within=walk.entry(name))
            walk.click(walk.word("uphold" if state == "upheld" else "dismiss"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


TEMPLATES = (forum_moderate, forum_foreign_board, forum_decide)
"""Templates for a moderator."""
