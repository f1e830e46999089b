"""The forum's members and moderators: profiles, and actions reserved to a board's moderator."""

from __future__ import annotations

import re

from ....rows.database import Row
from ..http import Response, number
from ..site import Refused, Site, page
from .rows import POSTS, REPORTS


class Moderating(Site):
    """Pages about members, and pages for moderators."""

    # -- members ----------------------------------------------------------------------------------------------------

    @page("/members")
    def members(self) -> Response:
        """List all members by name."""
        words = self.query.get("q").lower()
        rows = [row for row in self.people() if words in row["name"].lower()]
        return self.show("members.html", found=self.paged(rows))

    @page("/members/{id:int}")
    def profile(self, id: int) -> Response:
        """Show a member's profile."""
        row = self.db.row("SELECT * FROM accounts WHERE id = ? AND site = ?", id, self.name)
        if row is None:
            raise Refused(f"Member {id} does not exist.", 404)
        profile = self.db.row("SELECT * FROM forum_profiles WHERE account_id = ?", id)
        boards = self.db.rows("SELECT * FROM forum_boards WHERE moderator_id = ? ORDER BY id", id)
        return self.show("profile.html", who=row, profile=profile, boards=boards)

    @page("/profile", member=True)
    def own_profile(self) -> Response:
        """Show the form for the member's own profile."""
        row = self.db.row("SELECT * FROM forum_profiles WHERE account_id = ?", self.member["id"])
        return self.show("own_profile.html", profile=row)

    @page("/profile", "POST", member=True)
    def change_profile(self) -> Response:
        """Change the member's own profile."""
        row = self.db.row("SELECT * FROM forum_profiles WHERE account_id = ?", self.member["id"])
        assert row is not None
        self.db.update("forum_profiles", row["id"], **{name: self.form.get(name)[:80] for name in ("town", "motto")})
        return self.go(f"/members/{row['account_id']}", "Your profile was changed.")

    # -- actions of moderators --------------------------------------------------------------------------------------

    @page("/threads/{id:int}/lock", "POST", member=True)
    def lock(self, id: int) -> Response:
        """Lock a thread, or unlock it."""
        return self._mark(id, "locked")

    @page("/threads/{id:int}/pin", "POST", member=True)
    def pin(self, id: int) -> Response:
        """Pin a thread, so that it comes first in its board, or unpin it."""
        return self._mark(id, "pinned")

    @page("/threads/{id:int}/move", "POST", member=True)
    def move(self, id: int) -> Response:
        """Move a thread to another board, which may have another moderator."""
        row = self._moderated(id)
        target = self.db.row("SELECT * FROM forum_boards WHERE id = ?", number(self.form.get("board")))
        if target is None or target["id"] == row["board_id"]:
            return self.go(f"/threads/{id}", "Choose another board.")
        self.db.update("forum_threads", id, board_id=target["id"])
        return self.go(f"/threads/{id}", f"The thread is now in {target['name']}.")

    @page("/posts/{id:int}/hide", "POST", member=True)
    def hide(self, id: int) -> Response:
        """Hide a post from everyone except moderators, or show it again."""
        row = self.find(f"({POSTS})", id, "post")
        self._must_moderate(row["board_id"])
        hidden = int(self.form.get("how") != "end")
        self.db.update("forum_posts", id, hidden=hidden)
        who = "Only moderators" if hidden else "Everyone"
        return self.go(f"/posts/{id}", f"{who} can see this post now.")

    @page("/reports", member=True)
    def reports(self) -> Response:
        """List the open reports of posts in the member's boards, oldest first."""
        rows = self.db.rows(
            f"SELECT * FROM ({REPORTS}) WHERE moderator_id = ? AND state = 'open' ORDER BY created_at, id",
            self.member["id"],
        )
        return self.show("reports.html", found=self.paged(rows))

    @page("/reports/{id:int}", member=True)
    def one_report(self, id: int) -> Response:
        """Show a report."""
        return self.show("report.html", report=self._report(id))

    @page("/reports/{id:int}", "POST", member=True)
    def decide(self, id: int) -> Response:
        """Uphold a report, which hides the post, or dismiss it."""
        row, how = self._report(id), self.form.get("how")
        if row["state"] != "open":
            return self.go(f"/reports/{id}", f"This report has already been {row['state']}.")
        if how not in ("upheld", "dismissed"):
            return self.go(f"/reports/{id}", "Choose a decision.")
        self.db.update("forum_reports", id, state=how)
        if how == "upheld":
            self.db.update("forum_posts", row["post_id"], hidden=1)
        return self.go("/reports", f"Report {id} was {how}.")

    # -- for all pages ----------------------------------------------------------------------------------------------

    def boards(self) -> list[Row]:
        """Return all boards."""
        return self.db.rows("SELECT * FROM forum_boards ORDER BY id")

    def people(self) -> list[Row]:
        """Return all members with their profiles, by name."""
        sql = "SELECT accounts.id, name, town, motto, joined FROM accounts JOIN forum_profiles"
        return self.db.rows(f"{sql} ON account_id = accounts.id WHERE site = ? ORDER BY name, accounts.id", self.name)

    def moderates(self, board: int) -> bool:
        """Return whether the logged-in member moderates a board."""
        row = self.db.row("SELECT moderator_id FROM forum_boards WHERE id = ?", board)
        return bool(self.visit.account) and row is not None and row["moderator_id"] == self.visit.account

    def readable(self, id: int) -> Row:
        """Return a post that the visitor may read.

        Raises:
            Refused: the post does not exist, or is hidden.
        """
        row = self.find(f"({POSTS})", id, "post")
        if row["hidden"] and not self.moderates(row["board_id"]):
            raise Refused("This post was hidden by a moderator.")
        return row

    def own(self, id: int) -> Row:
        """Return a post that the logged-in member may change.

        Raises:
            Refused: another member wrote it, or its thread is locked.
        """
        row = self.readable(id)
        if row["account_id"] != self.member["id"]:
            raise Refused("Only the author can change a post.")
        if row["locked"]:
            raise Refused("The thread of this post is locked.")
        return row

    def text(self, name: str) -> str:
        """Return a long text of the form, with plain line endings."""
        return re.sub(r"\r\n?", "\n", self.form.get(name))

    # -- internals --------------------------------------------------------------------------------------------------

    def _mark(self, id: int, column: str) -> Response:
        self._moderated(id)
        on = int(self.form.get("how") != "end")
        self.db.update("forum_threads", id, **{column: on})
        return self.go(f"/threads/{id}", f"This thread is {'now' if on else 'no longer'} {column}.")

    def _moderated(self, id: int) -> Row:
        row = self.find("forum_threads", id, "thread")
        self._must_moderate(row["board_id"])
        return row

    def _must_moderate(self, board: int) -> None:
        if not self.moderates(board):
            raise Refused("Only the moderator of the board can do this.")

    def _report(self, id: int) -> Row:
        row = self.find(f"({REPORTS})", id, "report")
        if row["moderator_id"] != self.member["id"]:
            raise Refused("This report is for the moderator of another board.")
        return row
