"""The tracker: who may change which issue, what milestones and duplicates refuse, and that looking changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise.tasks.rows.database import Row
from turnwise.tasks.web.simulators.tracker.site import Tracker

from .visiting import ODD, Visitor, paths, shared_labels


@pytest.fixture
def tracker() -> Visitor:
    return Visitor(Tracker)


def _issue(tracker: Visitor, own: bool, status: str = "open", more: str = "") -> Row:
    mine = "SELECT project_id FROM tracker_members WHERE account_id = ?"
    sql = f"SELECT * FROM tracker_issues WHERE (project_id IN ({mine})) = ? AND status = ? AND reporter_id <> ? {more}"
    row = tracker.db.row(sql, tracker.first, own, status, tracker.first)
    assert row is not None
    return row


def _fields(row: Row, **changed: Any) -> dict[str, str]:
    """The form of an issue as its page has it."""
    names = {"assignee": "assignee_id", "milestone": "milestone_id"}
    fields = {one: row[names.get(one, one)] for one in ("title", "text", "priority", *names)}
    return {name: str(value or "") for name, value in {**fields, **changed}.items()}


def _plan(tracker: Visitor, project: int, closed: bool) -> Row:
    row = tracker.db.row(
        "SELECT * FROM tracker_milestones WHERE project_id = ? AND (closed_on <> '') = ?", project, closed
    )
    assert row is not None
    return row


def test_looking_changes_nothing(tracker: Visitor) -> None:
    for path in paths(tracker):
        assert tracker.get(path).status in (200, 303, 403, 404, 409), path
    assert tracker.changed == []


def test_no_two_words_share_a_label() -> None:
    assert shared_labels(Tracker) == []


@pytest.mark.parametrize("odd", ODD)
def test_odd_input_gets_a_page_and_changes_nothing(tracker: Visitor, odd: str) -> None:
    row = _issue(tracker, own=True)
    assert tracker.post(f"/issues/{row['id']}/edit", **_fields(row, priority=odd)).status == 400
    assert tracker.post(f"/issues/{row['id']}/duplicate", other=odd).status == 400
    assert tracker.post(f"/projects/{row['project_id']}/new", title="", text=odd).status == 400
    if odd:
        assert tracker.post(f"/issues/{row['id']}/edit", **_fields(row, assignee=odd, milestone=odd)).status == 400
        assert tracker.post(f"/issues/{row['id']}/labels", label=odd).status == 400
    clean = odd.replace("&", "").replace("#", "")
    path = "/issues?q={0}&project={0}&status={0}&priority={0}&assignee={0}&label={0}&sort={0}&page={0}"
    assert tracker.get(path.format(clean)).status in (200, 400)
    assert tracker.changed == []


@pytest.mark.parametrize("act", ["edit", "labels", "duplicate", "close"])
def test_only_who_works_on_a_project_changes_its_issues(tracker: Visitor, act: str) -> None:
    row = _issue(tracker, own=False)
    other = tracker.db.value(
        "SELECT id FROM tracker_issues WHERE project_id = ? AND id <> ?", row["project_id"], row["id"]
    )
    answer = tracker.post(f"/issues/{row['id']}/{act}", **_fields(row, title="Mine now"), label="bug", other=str(other))
    assert answer.status == 403
    assert tracker.changed == []
    tracker.post(f"/issues/{row['id']}/comments", text="But anybody may say something.")
    assert [one.split()[0] for one in tracker.changed] == ["tracker_comments"]


def test_a_closed_milestone_takes_no_issue_and_keeps_what_it_has(tracker: Visitor) -> None:
    row = _issue(tracker, own=True, more="AND milestone_id IS NULL")
    closed, free = _plan(tracker, row["project_id"], True), _plan(tracker, row["project_id"], False)
    answer = tracker.post(f"/issues/{row['id']}/edit", **_fields(row, milestone=closed["id"]))
    assert answer.status == 400
    assert f"was closed on {closed['closed_on']}" in answer.body
    new = {"title": "A new one", "text": "", "priority": "low", "milestone": str(closed["id"])}
    assert tracker.post(f"/projects/{row['project_id']}/new", **new).status == 400
    assert tracker.changed == []
    tracker.post(f"/issues/{row['id']}/edit", **_fields(row, milestone=free["id"]))
    assert tracker.changed == [f"tracker_issues {row['id']}: update of milestone_id"]
    tracker.db.update("tracker_issues", row["id"], milestone_id=closed["id"])
    tracker.post(f"/issues/{row['id']}/edit", **_fields(row, milestone=closed["id"], title="Another title"))
    assert tracker.changed == [f"tracker_issues {row['id']}: update of milestone_id, title"]


def test_milestones_and_people_are_those_of_the_project(tracker: Visitor) -> None:
    row = _issue(tracker, own=True)
    foreign = tracker.db.value("SELECT id FROM tracker_milestones WHERE project_id <> ?", row["project_id"])
    team = "SELECT account_id FROM tracker_members WHERE project_id = ?"
    stranger = tracker.db.value(
        f"SELECT id FROM accounts WHERE site = 'tracker' AND id NOT IN ({team})", row["project_id"]
    )
    for wrong in ({"milestone": foreign}, {"assignee": stranger}):
        assert tracker.post(f"/issues/{row['id']}/edit", **_fields(row, **wrong)).status == 400
    assert tracker.changed == []


def test_a_duplicate_is_closed_and_points_at_one_that_is_none(tracker: Visitor) -> None:
    row = _issue(tracker, own=True)
    sql = "SELECT id FROM tracker_issues WHERE (project_id = ?) = ? AND id <> ? AND duplicate_of IS NULL"
    same, foreign = (tracker.db.value(sql, row["project_id"], own, row["id"]) for own in (1, 0))
    for wrong in (row["id"], foreign, 0):
        assert tracker.post(f"/issues/{row['id']}/duplicate", other=f"#{wrong}").status == 400
    assert tracker.changed == []
    tracker.post(f"/issues/{row['id']}/duplicate", other=f"#{same}")
    assert tracker.changed == [f"tracker_issues {row['id']}: update of duplicate_of, status"]
    tracker.post(f"/issues/{row['id']}/close", how="open")
    assert tracker.changed == [], "opened again it is a duplicate no more"


def test_a_closed_issue_is_opened_before_it_is_changed(tracker: Visitor) -> None:
    row = _issue(tracker, own=True, status="closed")
    assert tracker.post(f"/issues/{row['id']}/edit", **_fields(row, title="Not like this")).status == 409
    assert tracker.changed == []


def test_an_issue_is_created_in_two_steps_and_once(tracker: Visitor) -> None:
    assert tracker.post("/issues").status == 409
    answer = tracker.post("/projects/1/new", title="The list is slow", text="Very.", priority="high")
    assert answer.location == "/check"
    assert tracker.changed == []
    tracker.post("/issues")
    assert tracker.post("/issues").status == 409
    assert [one.split(":")[1] for one in tracker.changed] == [" insert"]


def test_labels_are_what_was_ticked(tracker: Visitor) -> None:
    row = _issue(
        tracker, own=True, more="AND 'bug' IN (SELECT label FROM tracker_labels WHERE issue_id = tracker_issues.id)"
    )
    tracker.post(f"/issues/{row['id']}/labels", label="bug")
    left = tracker.db.rows("SELECT label FROM tracker_labels WHERE issue_id = ?", row["id"])
    assert [one["label"] for one in left] == ["bug"]
    assert not any("insert" in one for one in tracker.changed), "the one that was there stays as it is"


def test_only_the_author_changes_a_comment(tracker: Visitor) -> None:
    row = tracker.db.row("SELECT * FROM tracker_comments WHERE account_id <> ?", tracker.first)
    assert row is not None
    for act in ("edit", "delete"):
        assert tracker.post(f"/comments/{row['id']}/{act}", text="Never said.").status == 403
    assert tracker.changed == []
    tracker.be(row["account_id"])
    assert tracker.post(f"/comments/{row['id']}/edit", text="").status == 400
    tracker.post(f"/comments/{row['id']}/edit", text="Said otherwise.")
    assert tracker.changed == [f"tracker_comments {row['id']}: update of text"]


def test_filters_find_what_the_rows_say(tracker: Visitor) -> None:
    tracker.sites.rules = type(tracker.sites.rules)(tracker.sites.rules.themes, 100, tracker.sites.rules.now)
    wanted = tracker.db.value(
        """SELECT count(*) FROM tracker_issues WHERE status = 'open' AND assignee_id IS NULL AND EXISTS
           (SELECT 1 FROM tracker_labels WHERE issue_id = tracker_issues.id AND label = 'bug')"""
    )
    assert f"<p>{wanted} found</p>" in tracker.text("/issues?status=open&assignee=nobody&label=bug")


def test_strangers_read_and_do_not_write(tracker: Visitor) -> None:
    tracker.be(0)
    assert tracker.get("/issues/1").status == 200
    assert tracker.post("/issues/1/comments", text="Hello.").location.startswith("/login")
    assert tracker.get("/mine").location.startswith("/login")
    assert tracker.changed == []
