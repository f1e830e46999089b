"""Pages of the tracker that change issues: create, comment, assign, label, plan, close, and mark duplicates."""

from __future__ import annotations

import re
from typing import Any

from ....rows.database import Row
from ..http import Response, number
from ..site import Refused, Site, page
from .rows import COMMENTS, ISSUES, LABELS, LONGEST_TEXT, LONGEST_TITLE, MILESTONES, PRIORITIES, TEAM

WRONG = {"title": "", "text": "", "priority": "", "assignee": "", "milestone": ""}
"""Errors of a valid issue form, by field."""


class Changing(Site):
    """Pages that change issues."""

    # -- a new issue, in two steps ----------------------------------------------------------------------------------

    @page("/projects/{id:int}/new", member=True)
    def new_issue(self, id: int) -> Response:
        """First step: show the form."""
        kept = self.visit.kept.get("draft", {})
        empty = {"title": "", "text": "", "priority": "normal", "assignee": "", "milestone": ""}
        return self._form("new_issue.html", id, kept if kept.get("project") == id else empty, WRONG)

    @page("/projects/{id:int}/new", "POST", member=True)
    def write_issue(self, id: int) -> Response:
        """Store the draft if it is valid."""
        draft, wrong = self._read(id, None)
        if any(wrong.values()):
            return self._form("new_issue.html", id, draft, wrong, 400)
        self.keep(draft={**draft, "project": id})
        return self.go("/check")

    @page("/check", member=True)
    def check(self) -> Response:
        """Second step: show similar issues."""
        draft = self._draft()
        words = set(re.findall(r"\w{5,}", draft["title"].lower()))
        rows = self.db.rows(f"SELECT * FROM ({ISSUES}) WHERE project_id = ? ORDER BY id DESC", draft["project"])
        similar = [row for row in rows if words & set(re.findall(r"\w{5,}", row["title"].lower()))]
        project = self.find("tracker_projects", draft["project"], "project")
        worker = self.db.value("SELECT name FROM accounts WHERE id = ?", number(draft["assignee"])) or "unassigned"
        plan = self.db.value("SELECT name FROM tracker_milestones WHERE id = ?", number(draft["milestone"])) or "none"
        values: dict[str, Any] = {"project": project, "similar": similar[:5], "worker": worker, "plan": plan}
        return self.show("check.html", draft=draft, **values)

    @page("/issues", "POST", member=True)
    def create(self) -> Response:
        """Create the issue of the draft."""
        draft = self._draft()
        id = self.db.insert(
            "tracker_issues",
            project_id=draft["project"],
            **self._columns(draft),
            status="open",
            duplicate_of=None,
            reporter_id=self.member["id"],
            created_at=self.stamp,
        )
        self.keep(draft=None)
        return self.go(f"/issues/{id}", f"Issue #{id} was created.")

    # -- an issue ---------------------------------------------------------------------------------------------------

    @page("/issues/{id:int}/edit", member=True)
    def edit(self, id: int) -> Response:
        """Show the form for an issue."""
        row = self._editable(id)
        draft = {name: row[name] for name in ("title", "text", "priority")}
        draft |= {name: str(row[f"{name}_id"] or "") for name in ("assignee", "milestone")}
        return self._form("edit_issue.html", row["project_id"], draft, WRONG, issue=row)

    @page("/issues/{id:int}/edit", "POST", member=True)
    def change(self, id: int) -> Response:
        """Change an issue."""
        row = self._editable(id)
        draft, wrong = self._read(row["project_id"], row)
        if any(wrong.values()):
            return self._form("edit_issue.html", row["project_id"], draft, wrong, 400, issue=row)
        self.db.update("tracker_issues", id, **self._columns(draft))
        return self.go(f"/issues/{id}", "The issue was changed.")

    @page("/issues/{id:int}/labels", member=True)
    def labels(self, id: int) -> Response:
        """Show the form for labels."""
        return self.show("labels.html", issue=self._editable(id), labels=LABELS)

    @page("/issues/{id:int}/labels", "POST", member=True)
    def set_labels(self, id: int) -> Response:
        """Set an issue's labels to the checked ones."""
        self._editable(id)
        wanted = set(self.form.all("label"))
        if not wanted <= set(LABELS):
            raise Refused("This label does not exist.", 400)
        had = {row["label"]: row["id"] for row in self.db.rows("SELECT * FROM tracker_labels WHERE issue_id = ?", id)}
        for label in sorted(wanted - set(had)):
            self.db.insert("tracker_labels", issue_id=id, label=label)
        for label in sorted(set(had) - wanted):
            self.db.delete("tracker_labels", had[label])
        return self.go(f"/issues/{id}", "The labels were changed.")

    @page("/issues/{id:int}/close", "POST", member=True)
    def close(self, id: int) -> Response:
        """Close an issue, or reopen it; its reporter may do so, too."""
        row = self.find(f"({ISSUES})", id, "issue")
        if row["reporter_id"] != self.member["id"]:
            self._must_work(row)
        if self.form.get("how") == "open":
            self.db.update("tracker_issues", id, status="open", duplicate_of=None)
            return self.go(f"/issues/{id}", "The issue was reopened.")
        self.db.update("tracker_issues", id, status="closed")
        return self.go(f"/issues/{id}", "The issue was closed.")

    @page("/issues/{id:int}/duplicate", member=True)
    def duplicate_form(self, id: int) -> Response:
        """Show the form for marking an issue as a duplicate."""
        return self.show("duplicate.html", issue=self._editable(id), draft="", wrong="")

    @page("/issues/{id:int}/duplicate", "POST", member=True)
    def duplicate(self, id: int) -> Response:
        """Close an issue as a duplicate of another one."""
        row, said = self._editable(id), self.form.get("other")
        other = self.db.row("SELECT * FROM tracker_issues WHERE id = ?", number(said.removeprefix("#")))
        wrong = ""
        if other is None:
            wrong = f"Issue {said[:20]!r} does not exist."
        elif other["id"] == id or other["project_id"] != row["project_id"]:
            wrong = "It must be another issue of the same project."
        elif other["duplicate_of"] is not None:
            wrong = f"That issue is itself a duplicate of #{other['duplicate_of']}."
        if wrong or other is None:
            return self.show("duplicate.html", 400, issue=row, draft=said[:20], wrong=wrong)
        self.db.update("tracker_issues", id, status="closed", duplicate_of=other["id"])
        return self.go(f"/issues/{id}", f"The issue was closed as a duplicate of #{other['id']}.")

    @page("/issues/{id:int}/watch", "POST", member=True)
    def watch(self, id: int) -> Response:
        """Watch an issue, or stop watching it."""
        self.find("tracker_issues", id, "issue")
        mine = (id, self.member["id"])
        had = self.db.row("SELECT id FROM tracker_watches WHERE issue_id = ? AND account_id = ?", *mine)
        ends = self.form.get("how") == "end"
        if ends and had is not None:
            self.db.delete("tracker_watches", had["id"])
        elif not ends and had is None:
            self.db.insert("tracker_watches", issue_id=id, account_id=mine[1])
        return self.go(f"/issues/{id}", f"You are {'no longer' if ends else 'now'} watching this issue.")

    # -- comments ---------------------------------------------------------------------------------------------------

    @page("/issues/{id:int}/comments", "POST", member=True)
    def comment(self, id: int) -> Response:
        """Comment on an issue, open or closed."""
        row, text = self.find("tracker_issues", id, "issue"), self._text("text")
        if wrong := _too(text, LONGEST_TEXT):
            comment = {"id": 0, "issue_id": id}
            values: dict[str, Any] = {"comment": comment, "to": f"/issues/{id}/comments", "head": row["title"]}
            return self.show("comment.html", 400, draft=text[:5000], wrong=wrong, **values)
        columns = {"issue_id": id, "account_id": self.member["id"], "text": text}
        self.db.insert("tracker_comments", **columns, created_at=self.stamp)
        return self.go(f"/issues/{id}", "Your comment was added.")

    @page("/comments/{id:int}/edit", member=True)
    def edit_comment(self, id: int) -> Response:
        """Show the form for the member's own comment."""
        return self._comment_form(self._own_comment(id))

    @page("/comments/{id:int}/edit", "POST", member=True)
    def change_comment(self, id: int) -> Response:
        """Change the member's own comment."""
        row, text = self._own_comment(id), self._text("text")
        if wrong := _too(text, LONGEST_TEXT):
            return self._comment_form({**row, "text": text[:5000]}, wrong)
        self.db.update("tracker_comments", id, text=text)
        return self.go(f"/issues/{row['issue_id']}", "The comment was changed.")

    @page("/comments/{id:int}/delete", "POST", member=True)
    def delete_comment(self, id: int) -> Response:
        """Delete the member's own comment."""
        row = self._own_comment(id)
        self.db.delete("tracker_comments", id)
        return self.go(f"/issues/{row['issue_id']}", "The comment was deleted.")

    # -- for all pages ----------------------------------------------------------------------------------------------

    def projects(self) -> list[Row]:
        """Return all projects."""
        return self.db.rows("SELECT * FROM tracker_projects ORDER BY id")

    def people(self) -> list[Row]:
        """Return all members by name."""
        return self.db.rows("SELECT id, name FROM accounts WHERE site = ? ORDER BY name, id", self.name)

    def works_on(self, project: int) -> bool:
        """Return whether the logged-in member works on a project."""
        sql = "SELECT id FROM tracker_members WHERE project_id = ? AND account_id = ?"
        return bool(self.visit.account) and self.db.row(sql, project, self.visit.account) is not None

    # -- internals --------------------------------------------------------------------------------------------------

    def _form(
        self, template: str, project: int, draft: dict[str, Any], wrong: dict[str, str], status: int = 200, **more: Any
    ) -> Response:
        row = self.find("tracker_projects", project, "project")
        plans = self.db.rows(f"SELECT * FROM ({MILESTONES}) WHERE project_id = ? ORDER BY due, id", project)
        values: dict[str, Any] = {"team": self.db.rows(TEAM, project), "milestones": plans, "priorities": PRIORITIES}
        return self.show(template, status, project=row, draft=draft, wrong=wrong, **values, **more)

    def _read(self, project: int, row: Row | None) -> tuple[dict[str, str], dict[str, str]]:
        """Return the entered fields of an issue and their errors, by field."""
        self.find("tracker_projects", project, "project")
        draft = {name: self._text(name) for name in WRONG}
        wrong = {**WRONG, "title": _too(draft["title"], LONGEST_TITLE)}
        if len(draft["text"]) > LONGEST_TEXT:
            wrong["text"] = _too(draft["text"], LONGEST_TEXT)
        if draft["priority"] not in PRIORITIES:
            wrong["priority"] = "Choose a priority."
        if draft["assignee"] and number(draft["assignee"]) not in {one["id"] for one in self.db.rows(TEAM, project)}:
            wrong["assignee"] = "Only a member of the project team can be the assignee."
        plan = self.db.row(f"SELECT * FROM ({MILESTONES}) WHERE id = ?", number(draft["milestone"]))
        if draft["milestone"] and (plan is None or plan["project_id"] != project):
            wrong["milestone"] = "The project does not have this milestone."
        elif plan is not None and plan["status"] == "closed" and (row is None or row["milestone_id"] != plan["id"]):
            wrong["milestone"] = f"{plan['name']} was closed on {plan['closed_on']} and no longer takes issues."
        return draft, wrong

    def _columns(self, draft: dict[str, str]) -> dict[str, Any]:
        chosen = {f"{name}_id": number(draft[name]) or None for name in ("assignee", "milestone")}
        return {name: draft[name] for name in ("title", "text", "priority")} | chosen

    def _draft(self) -> dict[str, Any]:
        draft: dict[str, Any] | None = self.visit.kept.get("draft")
        if draft is None:
            raise Refused("Write an issue first: start from its project.", 409)
        return draft

    def _editable(self, id: int) -> Row:
        row = self.find(f"({ISSUES})", id, "issue")
        self._must_work(row)
        if row["status"] == "closed":
            raise Refused("This issue is closed. Reopen it before you change it.", 409)
        return row

    def _must_work(self, row: Row) -> None:
        if not self.works_on(row["project_id"]):
            raise Refused(f"Only members of the {row['project']} team can do this.")

    def _own_comment(self, id: int) -> Row:
        row = self.find(f"({COMMENTS})", id, "comment")
        if row["account_id"] != self.member["id"]:
            raise Refused("Only the author can change a comment.")
        return row

    def _comment_form(self, row: Row, wrong: str = "") -> Response:
        values: dict[str, Any] = {
            "to": f"/comments/{row['id']}/edit",
            "head": f"#{row['issue_id']}",
            "draft": row["text"],
        }
        return self.show("comment.html", 400 if wrong else 200, comment=row, wrong=wrong, **values)

    def _text(self, name: str) -> str:
        return re.sub(r"\r\n?", "\n", self.form.get(name))


def _too(text: str, longest: int) -> str:
    """Return the error in the length of a text; empty if there is none."""
    if len(text) < 3:
        return "Write at least 3 characters."
    return f"The text has {len(text)} characters; the limit is {longest}." if len(text) > longest else ""
