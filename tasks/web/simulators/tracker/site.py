"""``Tracker``: projects with issues, comments, labels, milestones and members."""

from __future__ import annotations

from typing import Any, ClassVar

from ..http import Response, number
from ..site import page
from .changing import Changing
from .rows import COMMENTS, ISSUES, LABELS, MILESTONES, PRIORITIES, SORTS, TEAM


class Tracker(Changing):
    """The issue tracker."""

    name = "tracker"
    title = "Clockwork Tracker"
    about = "An issue tracker: projects with issues, comments, labels and milestones."
    keys: ClassVar[dict[str, tuple[str, ...]]] = {
        "tracker_labels": ("issue_id", "label"),
        "tracker_watches": ("issue_id", "account_id"),
    }
    menu = (("issues", "/issues"), ("mine", "/mine"), ("reported", "/reported"), ("watching", "/watching"))
    stray = ("/issues/1/comments", {"text": "nobody"})

    @page("/")
    def front(self) -> Response:
        """Show the projects, and the form for searching issues."""
        return self.show("front.html", projects=self.projects())

    @page("/projects/{id:int}")
    def project(self, id: int) -> Response:
        """Show a project: its members and its milestones."""
        row = self.find("tracker_projects", id, "project")
        lead = self.find("accounts", row["lead_id"], "person")
        milestones = self.paged(self.db.rows(f"SELECT * FROM ({MILESTONES}) WHERE project_id = ? ORDER BY due, id", id))
        team = [one["name"] for one in self.db.rows(TEAM, id)]
        return self.show("project.html", project=row, lead=lead, team=team, found=milestones)

    @page("/milestones/{id:int}")
    def milestone(self, id: int) -> Response:
        """Show a milestone with its issues."""
        row = self.find(f"({MILESTONES})", id, "milestone")
        issues = self.db.rows(f"SELECT * FROM ({ISSUES}) WHERE milestone_id = ? ORDER BY id DESC", id)
        project = self.find("tracker_projects", row["project_id"], "project")
        return self.show("milestone.html", milestone=row, project=project, found=self.paged(issues))

    @page("/issues")
    def issues(self) -> Response:
        """List the issues that match the query."""
        query, sort = self.query, self.query.get("sort", "newest")
        who = query.get("assignee")
        rows = self.db.rows(
            f"""SELECT * FROM ({ISSUES}) AS issue WHERE (instr(lower(title), lower(?1)) OR ?1 = '')
                AND (project_id = ?2 OR ?3) AND (status = ?4 OR ?4 = '') AND (priority = ?5 OR ?5 = '')
                AND (coalesce(assignee_id, 0) = ?6 OR ?7) AND (?8 = '' OR EXISTS (SELECT 1 FROM tracker_labels
                WHERE issue_id = issue.id AND label = ?8)) ORDER BY {SORTS.get(sort, SORTS["newest"])}""",
            query.get("q"),
            number(query.get("project")),
            query.get("project") == "",
            query.get("status"),
            query.get("priority"),
            0 if who == "unassigned" else number(who) or -1,
            who == "",
            query.get("label"),
        )
        values: dict[str, Any] = {
            "priorities": PRIORITIES,
            "labels": LABELS,
            "projects": self.projects(),
            "people": self.people(),
        }
        return self.show("issues.html", found=self.paged(rows), sort=sort, **values)

    @page("/mine", member=True)
    def mine(self) -> Response:
        """List the open issues assigned to the member, the most urgent first."""
        where = f"assignee_id = ? AND status = 'open' ORDER BY {SORTS['priority']}"
        return self._listed("mine", where)

    @page("/reported", member=True)
    def reported(self) -> Response:
        """List the issues that the member has reported, newest first."""
        return self._listed("reported", f"reporter_id = ? ORDER BY {SORTS['newest']}")

    @page("/watching", member=True)
    def watching(self) -> Response:
        """List the issues that the member watches."""
        watched = "SELECT issue_id FROM tracker_watches WHERE account_id = ?"
        return self._listed("watching", f"id IN ({watched}) ORDER BY {SORTS['title']}")

    @page("/issues/{id:int}")
    def issue(self, id: int) -> Response:
        """Show an issue with its comments."""
        row, who = self.find(f"({ISSUES})", id, "issue"), self.visit.account
        comments = self.db.rows(f"SELECT * FROM ({COMMENTS}) WHERE issue_id = ? ORDER BY created_at, id", id)
        watches = self.db.row("SELECT id FROM tracker_watches WHERE issue_id = ? AND account_id = ?", id, who)
        values: dict[str, Any] = {
            "works": self.works_on(row["project_id"]),
            "files": bool(who) and row["reporter_id"] == who,
        }
        found = self.paged(comments)
        return self.show(
            "issue.html", issue=row, found=found, watches=watches is not None, draft="", wrong="", **values
        )

    def _listed(self, head: str, where: str) -> Response:
        rows = self.db.rows(f"SELECT * FROM ({ISSUES}) WHERE {where}", self.member["id"])
        return self.show("listed_issues.html", head=head, found=self.paged(rows))
