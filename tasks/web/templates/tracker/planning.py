"""Tasks of the tracker that organize existing issues: assignments, labels and duplicates."""

from __future__ import annotations

from typing import Any

from ....rows.expected import Must, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.tracker.rows import ISSUES, LABELS, PRIORITIES, TEAM
from ..walk import Walk
from .walking import OWN, me_in, open_issue


@template("tracker", kind="form")
def tracker_assign(scene: Scene) -> TaskDraft:
    """Assign an issue to a member, at higher levels with another priority."""
    row, both = scene.row(OWN, me_in(scene)), scene.level > 2
    worker = scene.pick([one for one in scene.db.rows(TEAM, row["project_id"]) if one["id"] != row["assignee_id"]])
    priority = scene.pick([one for one in PRIORITIES if one != row["priority"]])
    also = f", and set its priority to {priority}" if both else ""
    prompt = f"Assign the issue '{row['title']}' in the tracker to {worker['name']}{also}."
    changed: dict[str, Any] = {"assignee_id": worker["id"]}
    if both:
        changed["priority"] = priority

    def solve(walk: Walk) -> None:
        open_issue(walk, row["title"])
        walk.click(walk.word("edit"))
        walk.choose(walk.word("assignee"), worker["name"])
        if both:
            walk.choose(walk.word("priority"), priority)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(updated("tracker_issues", row["id"], "assigned", **changed),))


@template("tracker", kind="form")
def tracker_label(scene: Scene) -> TaskDraft:
    """Add a label to an issue, or remove one; at higher levels both."""
    row = scene.row(f"{OWN} AND labels <> ''", me_in(scene))
    had = {
        one["label"]: one["id"] for one in scene.db.rows("SELECT * FROM tracker_labels WHERE issue_id = ?", row["id"])
    }
    on, off = scene.pick([one for one in LABELS if one not in had]), scene.pick(sorted(had))
    adds = scene.level > 2 or scene.rng.random() < 0.5
    takes = scene.level > 2 or not adds
    said = [f"add the label '{on}'"] * adds + [f"remove the label '{off}'"] * takes
    prompt = f"For the issue '{row['title']}' in the tracker, {' and '.join(said)}. Keep its other labels."
    must: list[Must] = []
    if adds:
        must.append(inserted("tracker_labels", "label", issue_id=row["id"], label=on))
    if takes:
        must.append(deleted("tracker_labels", had[off], "label gone"))

    def solve(walk: Walk) -> None:
        open_issue(walk, row["title"])
        walk.click(walk.word("labels"))
        if adds:
            walk.check(on)
        if takes:
            walk.check(off, False)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("tracker", kind="form")
def tracker_duplicate(scene: Scene) -> TaskDraft:
    """Mark an issue as a duplicate of another one, at higher levels after a comment on that one."""
    me, says = me_in(scene), scene.level > 2
    row = scene.row(OWN, me)
    other = scene.row(
        f"{OWN} AND project_id = ? AND id <> ? AND duplicate_of IS NULL", me, row["project_id"], row["id"]
    )
    text = f"There is another report of this by {row['reporter']}."
    also = f" Before that, comment on the one that stays open: {text}" if says else ""
    prompt = (
        f"In the tracker, the issue '{row['title']}' is a duplicate of '{other['title']}', which stays open. Mark it as"
        f" a duplicate.{also}"
    )
    must: list[Must] = [updated("tracker_issues", row["id"], "duplicate", status="closed", duplicate_of=other["id"])]
    if says:
        must.append(inserted("tracker_comments", "comment", issue_id=other["id"], account_id=me, text=Text(text)))

    def solve(walk: Walk) -> None:
        open_issue(walk, other["title"])
        number = walk.fact(walk.word("number"))
        if says:
            walk.fill(walk.word("comment"), text)
            walk.click(walk.word("add_comment"))
        open_issue(walk, row["title"])
        walk.click(walk.word("mark_duplicate"))
        walk.fill(walk.word("duplicate_of"), number)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("tracker", kind="moderation", held_out=True)
def tracker_triage(scene: Scene) -> TaskDraft:
    """Assign all unassigned open issues of a project to one member; at higher levels only those with a label."""
    label, picky = scene.rng.pick(LABELS), scene.level > 3
    project = scene.row(
        "SELECT * FROM tracker_projects WHERE id IN (SELECT project_id FROM tracker_members WHERE account_id = ?)",
        me_in(scene),
    )
    sql = f"SELECT * FROM ({ISSUES}) WHERE project_id = ? AND status = 'open' AND assignee_id IS NULL"
    free = scene.db.rows(sql, project["id"])
    chosen = [row for row in free if not picky or label in row["labels"].split(", ")]
    scene.need(0 < len(chosen) <= (4 if scene.level > 3 else 2))
    worker = scene.row(TEAM, project["id"])
    limit = f" and that have the label '{label}'" if picky else ""
    prompt = (
        f"In the tracker, assign all open issues of the project '{project['name']}' that are unassigned{limit} to"
        f" {worker['name']}, and leave everything else as it is."
    )

    def solve(walk: Walk) -> None:
        walk.goto("tracker")
        walk.click(walk.word("issues"))
        walk.choose(walk.word("project"), project["name"])
        walk.choose(walk.word("status"), "open")
        walk.choose(walk.word("assignee"), "unassigned")
        if picky:
            walk.choose(walk.word("label"), label)
        walk.click(walk.word("search"))
        for name in [one.name for one in walk.all_entries()]:
            open_issue(walk, name)
            walk.click(walk.word("edit"))
            walk.choose(walk.word("assignee"), worker["name"])
            walk.click(walk.word("save"))
        walk.answer()

    must = [updated("tracker_issues", row["id"], f"#{row['id']}", assignee_id=worker["id"]) for row in chosen]
    return TaskDraft(prompt, solve, must=tuple(must))


TEMPLATES = (tracker_assign, tracker_label, tracker_duplicate, tracker_triage)
"""Templates about existing issues."""
