"""Initial rows of the tracker: projects, milestones, issues and comments."""

from __future__ import annotations

from datetime import datetime, timedelta

from ....people.cast import Cast
from ....rng import Rng
from ....rows.data import phrases_beside
from ....rows.database import Database, Row
from ..accounts import join
from .rows import LABELS, PRIORITIES

KINDS = (
    ("Web", "What customers see in the browser"),
    ("Mobile", "The same on a phone"),
    ("Server", "Where everything is stored"),
    ("Reports", "Figures for management"),
    ("Desk", "Tools for the support team"),
)
PEOPLE, OWN = 13, 3
"""Number of accounts, and of projects that the user works on."""


def fill(db: Database, cast: Cast, rng: Rng) -> None:
    """Insert all rows."""
    people = join(db, cast, rng.child("people"), "tracker", PEOPLE)
    _projects(db, cast, people, rng.child("projects"))
    _issues(db, cast, people, rng.child("issues"))
    _talk(db, cast, people, rng.child("talk"))


def _projects(db: Database, cast: Cast, people: list[Row], rng: Rng) -> None:
    own = rng.sample(range(len(KINDS)), OWN)
    for number, ((kind, about), brand) in enumerate(
        zip(KINDS, rng.sample(cast.words["brand"], len(KINDS)), strict=True)
    ):
        team = rng.sample(people[1:], 4) + [people[0]] * (number in own)
        lead = people[0] if number == own[0] else team[0]
        id = db.insert("tracker_projects", name=f"{brand} {kind}", about=about, lead_id=lead["id"])
        for person in team:
            db.insert("tracker_members", project_id=id, account_id=person["id"])
        major, day = rng.randint(1, 4), -rng.randint(150, 260)
        for minor in range(4):
            closed = minor == 0 or (minor == 1 and rng.random() < 0.6)
            at = cast.day(day + rng.randint(-9, 9)) if closed else ""
            due = cast.day(day if closed else max(day, rng.randint(3, 25)))
            db.insert("tracker_milestones", project_id=id, name=f"{major}.{minor}", due=due, closed_on=at)
            day += rng.randint(60, 95) if closed else rng.randint(130, 200)


def _issues(db: Database, cast: Cast, people: list[Row], rng: Rng) -> None:
    teams: dict[int, list[int]] = {}
    for row in db.rows("SELECT * FROM tracker_members ORDER BY id"):
        teams.setdefault(row["project_id"], []).append(row["account_id"])
    plans: dict[int, list[Row]] = {}
    for row in db.rows("SELECT * FROM tracker_milestones ORDER BY id"):
        plans.setdefault(row["project_id"], []).append(row)
    phrases, taken = phrases_beside(__name__), set[str]()
    for age in sorted((rng.randint(2 * 1440, 240 * 1440) for _ in range(72)), reverse=True):
        while (title := _said(rng.pick(phrases["titles"]), cast, rng)) in taken:
            pass
        taken.add(title)
        project, status = rng.pick(tuple(teams)), "open" if rng.random() < 0.68 else "closed"
        at = (cast.now - timedelta(minutes=age)).isoformat(timespec="minutes")
        plan = [one for one in plans[project] if not one["closed_on"] or (status == "closed" and one["closed_on"] > at)]
        id = db.insert(
            "tracker_issues",
            project_id=project,
            title=title,
            text=" ".join(_said(one, cast, rng) for one in rng.sample(phrases["texts"], rng.randint(1, 2))),
            status=status,
            priority=rng.pick((*PRIORITIES, "normal", "low")),
            assignee_id=None if rng.random() < 0.3 else rng.pick(teams[project]),
            milestone_id=None if rng.random() < 0.35 else rng.pick(plan)["id"],
            duplicate_of=None,
            reporter_id=rng.pick(people)["id"],
            created_at=at,
        )
        for label in sorted(rng.sample(LABELS, rng.pick((0, 1, 1, 1, 2, 2, 3)))):
            db.insert("tracker_labels", issue_id=id, label=label)
    for row in rng.sample(db.rows("SELECT * FROM tracker_issues WHERE status = 'closed' ORDER BY id"), 4):
        sql = "SELECT id FROM tracker_issues WHERE project_id = ? AND id <> ? AND duplicate_of IS NULL ORDER BY id"
        other = rng.pick(db.rows(sql, row["project_id"], row["id"]))
        if not db.row("SELECT id FROM tracker_issues WHERE duplicate_of = ?", row["id"]):
            db.update("tracker_issues", row["id"], duplicate_of=other["id"])


def _talk(db: Database, cast: Cast, people: list[Row], rng: Rng) -> None:
    notes: list[tuple[str, int]] = []
    for row in db.rows("SELECT id, created_at FROM tracker_issues ORDER BY id"):
        since = datetime.fromisoformat(row["created_at"])
        minutes = int((cast.now - since) / timedelta(minutes=1))
        for _ in range(rng.pick((0, 0, 1, 1, 1, 2, 4))):
            at = since + timedelta(minutes=rng.randint(10, minutes // 2))
            notes.append((at.isoformat(timespec="minutes"), row["id"]))
    for stamp, issue in sorted(notes):
        text = _said(rng.pick(phrases_beside(__name__)["notes"]), cast, rng)
        db.insert("tracker_comments", issue_id=issue, account_id=rng.pick(people)["id"], text=text, created_at=stamp)
    issues = [row["id"] for row in db.rows("SELECT id FROM tracker_issues ORDER BY id")]
    for person in people:
        for issue in sorted(rng.sample(issues, rng.randint(1, 6))):
            db.insert("tracker_watches", issue_id=issue, account_id=person["id"])


def _said(text: str, cast: Cast, rng: Rng) -> str:
    words = cast.words
    drawn = {"topic": rng.pick(words["topic"]), "thing": rng.pick(words["thing"]), "city": rng.pick(words["city"])}
    return text.format(**drawn, number=rng.randint(11, 990))
