"""Tasks of the tracker: looking up facts, and reporting and closing issues."""

from __future__ import annotations

from ....rows.expected import Evidence, Matcher, Must, Refusal, Text, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.tracker.rows import ISSUES, LABELS, MILESTONES, PRIORITIES, TEAM
from ..walk import Walk
from .planning import TEMPLATES as PLANNING
from .walking import OWN, me_in, open_issue, open_project

NOTES = (
    "Seen again this morning.",
    "I asked the customer about it.",
    "The new release changed this.",
    "Two colleagues confirmed it.",
    "The handbook has a description.",
)
WANTS = (
    "Make the {topic} page wider",
    "The {topic} page forgets its filter",
    "Sort the {topic} table by date",
    "The {topic} button is hidden on small screens",
)


@template("tracker", kind="lookup")
def tracker_fact(scene: Scene) -> TaskDraft:
    """Ask for a fact about an issue; at higher levels about the milestone that it is planned for."""
    if scene.level > 2:
        row = scene.row(f"SELECT * FROM ({ISSUES}) WHERE milestone_id IS NOT NULL")
        due = str(scene.db.value("SELECT due FROM tracker_milestones WHERE id = ?", row["milestone_id"]))
        what, value = "due", Text(due)
    else:
        row, what = scene.row(f"SELECT * FROM ({ISSUES})"), scene.rng.pick(("number", "date"))
        value = Text(f"#{row['id']}", (str(row["id"]),)) if what == "number" else Text(row["created_at"][:10])
    said = {
        "due": "When is the milestone of the issue '{}' in the tracker due?",
        "number": "What is the number of the issue '{}' in the tracker?",
        "date": "On what date was the issue '{}' in the tracker reported?",
    }

    def solve(walk: Walk) -> None:
        open_issue(walk, row["title"])
        if what == "due":
            walk.click(walk.fact(walk.word("milestone")))
        walk.answer(walk.fact(walk.word(what)))

    return TaskDraft(said[what].format(row["title"]), solve, answer=value)


@template("tracker", kind="filter")
def tracker_oldest(scene: Scene) -> TaskDraft:
    """Ask for the oldest or newest open issue of a project, at higher levels also with a label or a priority."""
    project, oldest = scene.row("SELECT * FROM tracker_projects"), scene.rng.random() < 0.6
    rows = scene.db.rows(f"SELECT * FROM ({ISSUES}) WHERE project_id = ? AND status = 'open'", project["id"])
    label = priority = ""
    if scene.level > 2 and scene.rng.random() < 0.5:
        label = scene.pick(LABELS)
        rows = [row for row in rows if label in row["labels"].split(", ")]
    elif scene.level > 2:
        priority = scene.pick(PRIORITIES)
        rows = [row for row in rows if row["priority"] == priority]
    rows.sort(key=lambda row: str(row["created_at"]), reverse=not oldest)
    scene.need(len(rows) > 1 and rows[0]["created_at"] != rows[1]["created_at"])
    limit = f" with the label '{label}'" if label else f" with the priority '{priority}'" if priority else ""
    which = "was reported first" if oldest else "was reported last"
    prompt = f"Which open issue of the project '{project['name']}'{limit} in the tracker {which}? Tell me its title."

    def solve(walk: Walk) -> None:
        walk.goto("tracker")
        walk.click(walk.word("issues"))
        walk.choose(walk.word("project"), project["name"])
        walk.choose(walk.word("status"), "open")
        if label:
            walk.choose(walk.word("label"), label)
        if priority:
            walk.choose(walk.word("priority"), priority)
        walk.choose(walk.word("sort"), walk.word("oldest" if oldest else "newest"))
        walk.click(walk.word("search"))
        walk.answer(walk.entries()[0].name)

    return TaskDraft(prompt, solve, answer=Text(rows[0]["title"]), secrets=(rows[0]["title"],))


@template("tracker", kind="checkout")
def tracker_create(scene: Scene) -> TaskDraft:
    """Create an issue; at higher levels with an assignee and a milestone."""
    me, project = me_in(scene), scene.row("SELECT * FROM tracker_projects")
    title = scene.rng.pick(WANTS).format(topic=scene.pick(scene.cast.words["topic"]))
    text, priority = scene.rng.pick(NOTES), scene.rng.pick(("low", "high", "urgent"))
    scene.need(scene.db.row("SELECT id FROM tracker_issues WHERE title = ?", title) is None)
    prompt = (
        f"Create an issue in the tracker's project '{project['name']}': the title is '{title}', the description"
        f" '{text}', the priority {priority}."
    )
    worker = plan = None
    if scene.level > 2:
        worker = scene.row(TEAM, project["id"])
        prompt += f" Assign it to {worker['name']}."
    if scene.level > 3:
        plan = scene.row(f"SELECT * FROM ({MILESTONES}) WHERE project_id = ? AND status = 'open'", project["id"])
        prompt += f" Plan it for the milestone {plan['name']}."
    description: Matcher = Text(text)
    wanted = {
        "project_id": project["id"],
        "title": Text(title),
        "text": description,
        "status": "open",
        "priority": priority,
        "assignee_id": worker and worker["id"],
        "milestone_id": plan and plan["id"],
        "duplicate_of": None,
        "reporter_id": me,
    }

    def solve(walk: Walk) -> None:
        open_project(walk, project["name"])
        walk.click(walk.word("new_issue"))
        walk.fill(walk.word("title"), title)
        walk.fill(walk.word("text"), text)
        walk.choose(walk.word("priority"), priority)
        if worker:
            walk.choose(walk.word("assignee"), worker["name"])
        if plan:
            walk.choose(walk.word("milestone"), plan["name"])
        walk.click(walk.word("continue"))
        walk.click(walk.word("create"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(inserted("tracker_issues", "issue", **wanted),))


@template("tracker", kind="form")
def tracker_close(scene: Scene) -> TaskDraft:
    """Comment on an issue and close or reopen it; at higher levels also watch it."""
    me, text = me_in(scene), scene.rng.pick(NOTES)
    opens, watches = scene.rng.random() < 0.4, scene.level > 2
    mine = "SELECT project_id FROM tracker_members WHERE account_id = ?"
    watched = "SELECT issue_id FROM tracker_watches WHERE account_id = ?"
    row = scene.row(
        f"""SELECT * FROM ({ISSUES}) WHERE project_id IN ({mine}) AND id NOT IN ({watched}) AND status = ?
            AND duplicate_of IS NULL""",
        me,
        me,
        "closed" if opens else "open",
    )
    what = "reopen it" if opens else "close it"
    also = " Also start watching it." if watches else ""
    prompt = f"Comment on the issue '{row['title']}' in the tracker with the text '{text}', and {what}.{also}"
    must: list[Must] = [
        inserted("tracker_comments", "comment", issue_id=row["id"], account_id=me, text=Text(text)),
        updated("tracker_issues", row["id"], "status", status="open" if opens else "closed"),
    ]
    if watches:
        must.append(inserted("tracker_watches", "watched", issue_id=row["id"], account_id=me))

    def solve(walk: Walk) -> None:
        open_issue(walk, row["title"])
        walk.fill(walk.word("comment"), text)
        walk.click(walk.word("add_comment"))
        if watches:
            walk.click(walk.word("watch"))
        walk.click(walk.word("reopen" if opens else "close"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("tracker", kind="refusal")
def tracker_closed_milestone(scene: Scene) -> TaskDraft:
    """Plan an issue for a milestone. A closed milestone takes no issues; the evidence is the day of its closing."""
    row = scene.row(f"{OWN} AND milestone_id IS NULL", me_in(scene))
    status = "open" if scene.rng.random() < 0.45 else "closed"
    plan = scene.row(f"SELECT * FROM ({MILESTONES}) WHERE project_id = ? AND status = ?", row["project_id"], status)
    prompt = (
        f"Plan the issue '{row['title']}' in the tracker for the milestone {plan['name']} of its project. If that"
        " milestone no longer takes issues, say so and give the date on which it was closed."
    )

    def solve(walk: Walk) -> None:
        open_issue(walk, row["title"])
        walk.click(walk.fact(walk.word("project")))
        found = walk.entry(plan["name"])
        if found[walk.word("status")] == "closed":
            walk.refuse(found[walk.word("closed_on")])
            return
        open_issue(walk, row["title"])
        walk.click(walk.word("edit"))
        walk.choose(walk.word("milestone"), plan["name"])
        walk.click(walk.word("save"))
        walk.answer()

    if status == "closed":
        return TaskDraft(prompt, solve, refusal=Refusal("not_possible", Evidence((plan["closed_on"],))))
    return TaskDraft(prompt, solve, must=(updated("tracker_issues", row["id"], "milestone", milestone_id=plan["id"]),))


TEMPLATES = (
    tracker_fact,
    tracker_oldest,
    tracker_create,
    tracker_close,
    tracker_closed_milestone,
    *PLANNING,
)
"""All templates of the tracker."""
