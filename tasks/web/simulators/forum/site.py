"""``Forum``: boards with threads and posts, members, likes, subscriptions, reports, and moderators."""

from __future__ import annotations

from typing import Any, ClassVar

from ....rows.database import Row
from ..http import Response, number
from ..site import Refused, page
from .moderating import Moderating
from .rows import LONGEST_TEXT, LONGEST_TITLE, POSTS, REASONS, SORTS, THREADS


class Forum(Moderating):
    """The forum."""

    name = "forum"
    title = "Lamplight Forum"
    about = "A discussion board: boards with threads and posts, members, and reports for moderators."
    keys: ClassVar[dict[str, tuple[str, ...]]] = {
        "forum_likes": ("post_id", "account_id"),
        "forum_follows": ("thread_id", "account_id"),
    }
    menu = (
        ("threads", "/threads"),
        ("find_posts", "/posts"),
        ("members", "/members"),
        ("following", "/following"),
        ("reports", "/reports"),
        ("profile", "/profile"),
    )
    stray = ("/profile", {"town": "Nowhere", "motto": "nobody"})

    # -- boards and threads -----------------------------------------------------------------------------------------

    @page("/")
    def front(self) -> Response:
        """Show the boards, and the form for searching threads."""
        sql = "SELECT *, (SELECT count(*) FROM forum_threads WHERE board_id = forum_boards.id) AS threads"
        return self.show("front.html", boards=self.db.rows(f"{sql} FROM forum_boards ORDER BY id"))

    @page("/boards/{id:int}")
    def board(self, id: int) -> Response:
        """Show a board: its moderator, and its threads, pinned ones first."""
        row = self.find("forum_boards", id, "board")
        threads = self.db.rows(
            f"SELECT * FROM ({THREADS}) WHERE board_id = ? ORDER BY pinned DESC, created_at DESC, id DESC", id
        )
        moderator = self.find("accounts", row["moderator_id"], "member")
        return self.show("board.html", board=row, moderator=moderator, found=self.paged(threads))

    @page("/threads")
    def threads(self) -> Response:
        """List the threads that match the query."""
        query, sort = self.query, self.query.get("sort", "newest")
        rows = self.db.rows(
            f"""SELECT * FROM ({THREADS}) WHERE (instr(lower(title), lower(?1)) OR ?1 = '') AND (board_id = ?2 OR ?3)
                AND (account_id = ?4 OR ?5) AND (status = ?6 OR ?6 = '')
                ORDER BY {SORTS.get(sort, SORTS["newest"])}, id DESC""",
            query.get("q"),
            number(query.get("board")),
            query.get("board") == "",
            number(query.get("author")),
            query.get("author") == "",
            query.get("status"),
        )
        found = self.paged(rows)
        return self.show("threads.html", found=found, boards=self.boards(), people=self.people(), sort=sort)

    @page("/threads/{id:int}")
    def thread(self, id: int) -> Response:
        """Show a thread: its facts, its posts from first to last, and the possible actions."""
        row = self.find(f"({THREADS})", id, "thread")
        posts = self.db.rows(f"SELECT * FROM ({POSTS}) WHERE thread_id = ? ORDER BY created_at, id", id)
        mine, who = self.moderates(row["board_id"]), self.visit.account
        follows = self.db.row("SELECT id FROM forum_follows WHERE thread_id = ? AND account_id = ?", id, who)
        others = [one for one in self.boards() if one["id"] != row["board_id"]]
        values: dict[str, Any] = {
            "found": self.paged(posts),
            "moderates": mine,
            "follows": follows is not None,
            "boards": others,
        }
        return self.show("thread.html", thread=row, draft="", wrong="", **values)

    @page("/threads/{id:int}/reply", "POST", member=True)
    def reply(self, id: int) -> Response:
        """Write a reply, unless the thread is locked."""
        row, text = self.find("forum_threads", id, "thread"), self.text("text")
        if row["locked"]:
            raise Refused("This thread is locked, so no one can reply.")
        if wrong := _too(text, LONGEST_TEXT):
            return self.show("reply.html", 400, thread=row, draft=text[:5000], wrong=wrong)
        columns = {"thread_id": id, "account_id": self.member["id"], "text": text, "hidden": 0}
        self.db.insert("forum_posts", **columns, created_at=self.stamp)
        return self.go(f"/threads/{id}", "Your post was added to the thread.")

    @page("/threads/{id:int}/follow", "POST", member=True)
    def follow(self, id: int) -> Response:
        """Subscribe to a thread, or unsubscribe."""
        row = self.find("forum_threads", id, "thread")
        mine = (id, self.member["id"])
        had = self.db.row("SELECT id FROM forum_follows WHERE thread_id = ? AND account_id = ?", *mine)
        if self.form.get("how") == "end":
            if had is not None:
                self.db.delete("forum_follows", had["id"])
            return self.go(f"/threads/{id}", f"You will no longer be notified of new posts in {row['title']!r}.")
        if had is None:
            self.db.insert("forum_follows", thread_id=id, account_id=mine[1])
        return self.go(f"/threads/{id}", f"You will be notified of new posts in {row['title']!r}.")

    @page("/following", member=True)
    def following(self) -> Response:
        """List the threads that the member is subscribed to."""
        mine = "SELECT thread_id FROM forum_follows WHERE account_id = ?"
        rows = self.db.rows(f"SELECT * FROM ({THREADS}) WHERE id IN ({mine}) ORDER BY title, id", self.member["id"])
        return self.show("following.html", found=self.paged(rows))

    # -- a new thread, in two steps ---------------------------------------------------------------------------------

    @page("/boards/{id:int}/new", member=True)
    def new_thread(self, id: int) -> Response:
        """First step: show the form."""
        kept = self.visit.kept.get("draft", {})
        draft = kept if kept.get("board") == id else {"title": "", "text": ""}
        board = self.find("forum_boards", id, "board")
        return self.show("new_thread.html", board=board, draft=draft, wrong={"title": "", "text": ""})

    @page("/boards/{id:int}/new", "POST", member=True)
    def write_thread(self, id: int) -> Response:
        """Store the draft if it is valid."""
        row = self.find("forum_boards", id, "board")
        draft: dict[str, Any] = {"board": id, "title": self.form.get("title"), "text": self.text("text")}
        wrong = {"title": _too(draft["title"], LONGEST_TITLE), "text": _too(draft["text"], LONGEST_TEXT)}
        if self.db.row("SELECT id FROM forum_threads WHERE lower(title) = lower(?)", draft["title"]):
            wrong["title"] = "A thread with this title already exists."
        if any(wrong.values()):
            return self.show("new_thread.html", 400, board=row, draft=draft, wrong=wrong)
        self.keep(draft=draft)
        return self.go("/preview")

    @page("/preview", member=True)
    def preview(self) -> Response:
        """Second step: show the draft for confirmation."""
        draft = self._draft()
        return self.show("preview.html", draft=draft, board=self.find("forum_boards", draft["board"], "board"))

    @page("/threads", "POST", member=True)
    def publish(self) -> Response:
        """Publish the draft."""
        draft, who = self._draft(), self.member["id"]
        columns = {"board_id": draft["board"], "account_id": who, "title": draft["title"], "pinned": 0, "locked": 0}
        id = self.db.insert("forum_threads", **columns, created_at=self.stamp)
        post = {"thread_id": id, "account_id": who, "text": draft["text"], "hidden": 0}
        self.db.insert("forum_posts", **post, created_at=self.stamp)
        self.keep(draft=None)
        return self.go(f"/threads/{id}", "Your thread was published.")

    # -- posts ------------------------------------------------------------------------------------------------------

    @page("/posts")
    def posts(self) -> Response:
        """List the posts that match the query, newest first."""
        words, author = self.query.get("q"), self.query.get("author")
        rows = self.db.rows(
            f"""SELECT * FROM ({POSTS}) WHERE (instr(lower(text), lower(?1)) OR ?1 = '') AND (account_id = ?2 OR ?3)
                AND NOT hidden ORDER BY created_at DESC, id DESC""",
            words,
            number(author),
            author == "",
        )
        return self.show("posts.html", found=self.paged(rows), people=self.people())

    @page("/posts/{id:int}")
    def post(self, id: int) -> Response:
        """Show a post, and the possible actions."""
        row, who = self.readable(id), self.visit.account
        liked = self.db.row("SELECT id FROM forum_likes WHERE post_id = ? AND account_id = ?", id, who) is not None
        mine = bool(who) and row["account_id"] == who
        return self.show("post.html", post=row, liked=liked, mine=mine, moderates=self.moderates(row["board_id"]))

    @page("/posts/{id:int}/like", "POST", member=True)
    def like(self, id: int) -> Response:
        """Like another member's post, or remove the like."""
        row, who = self.readable(id), self.member["id"]
        if row["account_id"] == who:
            raise Refused("You cannot like your own post.")
        had = self.db.row("SELECT id FROM forum_likes WHERE post_id = ? AND account_id = ?", id, who)
        if self.form.get("how") == "end":
            if had is not None:
                self.db.delete("forum_likes", had["id"])
            return self.go(f"/posts/{id}", "You removed your like from this post.")
        if had is None:
            self.db.insert("forum_likes", post_id=id, account_id=who)
        return self.go(f"/posts/{id}", "You like this post.")

    @page("/posts/{id:int}/edit", member=True)
    def edit_post(self, id: int) -> Response:
        """Show the form for editing the member's own post."""
        row = self.own(id)
        return self.show("edit_post.html", post=row, draft=row["text"], wrong="")

    @page("/posts/{id:int}/edit", "POST", member=True)
    def change_post(self, id: int) -> Response:
        """Edit the member's own post."""
        row, text = self.own(id), self.text("text")
        if wrong := _too(text, LONGEST_TEXT):
            return self.show("edit_post.html", 400, post=row, draft=text[:5000], wrong=wrong)
        self.db.update("forum_posts", id, text=text)
        return self.go(f"/posts/{id}", "The post was changed.")

    @page("/posts/{id:int}/delete", "POST", member=True)
    def delete_post(self, id: int) -> Response:
        """Delete the member's own post with its likes; the first post of a thread stays."""
        row = self.own(id)
        if row["opening"]:
            return self.go(f"/posts/{id}", "The first post of a thread cannot be deleted.")
        for table in ("forum_likes", "forum_reports"):
            for one in self.db.rows(f"SELECT id FROM {table} WHERE post_id = ?", id):
                self.db.delete(table, one["id"])
        self.db.delete("forum_posts", id)
        return self.go(f"/threads/{row['thread_id']}", "The post was deleted.")

    @page("/posts/{id:int}/report", member=True)
    def report_form(self, id: int) -> Response:
        """Show the form for reporting a post."""
        draft = {"reason": "", "remark": ""}
        return self.show("report_post.html", post=self._foreign(id), reasons=REASONS, draft=draft, wrong="")

    @page("/posts/{id:int}/report", "POST", member=True)
    def report(self, id: int) -> Response:
        """Report another member's post to the moderator, once."""
        row, who = self._foreign(id), self.member["id"]
        draft = {"reason": self.form.get("reason"), "remark": self.text("remark")[:LONGEST_TEXT]}
        if draft["reason"] not in REASONS:
            wrong = "Choose a reason."
            return self.show("report_post.html", 400, post=row, reasons=REASONS, draft=draft, wrong=wrong)
        if self.db.row("SELECT id FROM forum_reports WHERE post_id = ? AND account_id = ?", id, who):
            return self.go(f"/posts/{id}", "You have already reported this post.")
        self.db.insert("forum_reports", post_id=id, account_id=who, **draft, state="open", created_at=self.stamp)
        return self.go(f"/posts/{id}", "The moderator will look at your report.")

    # -- internals --------------------------------------------------------------------------------------------------

    def _draft(self) -> dict[str, Any]:
        draft: dict[str, Any] | None = self.visit.kept.get("draft")
        if draft is None:
            raise Refused("Write a thread first: start from its board.", 409)
        return draft

    def _foreign(self, id: int) -> Row:
        row = self.readable(id)
        if row["account_id"] == self.member["id"]:
            raise Refused("This is your own post. You can change or delete it.")
        return row


def _too(text: str, longest: int) -> str:
    """Return the error in the length of a text; empty if there is none."""
    if len(text) < 3:
        return "Write at least 3 characters."
    return f"The text has {len(text)} characters; the limit is {longest}." if len(text) > longest else ""
