"""``Newsroom``: the editorial system of a news site, with articles, comments, banners and roles."""

from __future__ import annotations

from typing import ClassVar

from ....rows.database import Row
from ..http import Response, Values, number
from ..site import Refused, page
from .articles import Articles
from .desk import COMMENTS, PLACES, read_day

VERDICTS = {"approve": "approved", "reject": "rejected"}
KINDS = ("photo", "video", "chart")
ROLES = ("reporter", "editor", "chief")
MEDIA_SORTS = {"name": "name", "size": "kilobytes DESC"}


class Newsroom(Articles):
    """The newsroom."""

    name = "cms"
    title = "Tideline Newsroom"
    about = "The editorial system of a news site: articles, reader comments, banners, media, tags and staff."
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"cms_taggings": ("article_id", "tag_id")}
    menu = (
        ("articles", "/articles"),
        ("new_article", "/articles/new"),
        ("comments", "/comments"),
        ("banners", "/banners"),
        ("media", "/media"),
        ("tags", "/tags"),
        ("authors", "/authors"),
        ("categories", "/categories"),
        ("users", "/users"),
    )
    stray = ("/tags", {"name": "nobody asked for this"})

    @page("/", member=True)
    def front(self) -> Response:
        """Show the numbers of waiting comments and articles."""
        waiting = self.db.value("SELECT count(*) FROM cms_comments WHERE status = 'waiting'")
        review = self.db.value("SELECT count(*) FROM cms_articles WHERE status = 'review'")
        return self.show("front.html", waiting=waiting, review=review)

    # -- comments ---------------------------------------------------------------------------------------------------

    @page("/comments", member=True)
    def comments(self) -> Response:
        """List the comments that match the query, newest first."""
        rows = self.db.rows(
            f"""SELECT * FROM ({COMMENTS}) WHERE (status = ?2 OR ?2 = '') AND (?1 = '' OR instr(lower(title), lower(?1))
                OR instr(lower(author), lower(?1)) OR instr(lower(text), lower(?1)))
                ORDER BY created_at DESC, id DESC""",
            self.query.get("q"),
            self.query.get("status"),
        )
        return self.show("comments.html", found=self.paged(rows), states=("waiting", "approved", "rejected"))

    @page("/comments", "POST", member=True)
    def judged(self) -> Response:
        """Approve, reject or delete comments."""
        how, back = self.form.get("how"), str(Values.of(self.form.get("back")))
        self._editor("decide about comments")
        numbers = dict.fromkeys(self.form.all("comment"))
        rows = [self.find("cms_comments", number(one), "comment") for one in numbers]
        where = f"/comments?{back}" if back else "/comments"
        if not rows or how not in (*VERDICTS, "delete"):
            return self.go(where, "Select comments and an action.")
        for row in rows:
            if how == "delete":
                self.db.delete("cms_comments", row["id"])
            else:
                self.db.update("cms_comments", row["id"], status=VERDICTS[how])
        return self.go(where, f"Updated {len(rows)} comment(s).")

    # -- banners ----------------------------------------------------------------------------------------------------

    @page("/banners", member=True)
    def banners(self) -> Response:
        """List all banners by their first day."""
        rows = self.db.rows(
            "SELECT * FROM cms_banners WHERE place = ?1 OR ?1 = '' ORDER BY begins, id", self.query.get("place")
        )
        return self.show("banners.html", found=self.paged(rows), places=PLACES)

    @page("/banners/new", member=True)
    def new_banner(self) -> Response:
        """Show the form for a new banner."""
        return self._banner_form(0, dict.fromkeys(("name", "place", "begins", "ends"), ""), {})

    @page("/banners/new", "POST", member=True)
    def made_banner(self) -> Response:
        """Create a banner."""
        values, wrong = self._read_banner(0)
        if wrong:
            return self._banner_form(0, values, wrong, 422)
        self.db.insert("cms_banners", **values)
        return self.go("/banners", f"{values['name']} was booked.")

    @page("/banners/{id:int}", member=True)
    def banner(self, id: int) -> Response:
        """Show the form for an existing banner."""
        return self._banner_form(id, self.find("cms_banners", id, "banner"), {})

    @page("/banners/{id:int}", "POST", member=True)
    def set_banner(self, id: int) -> Response:
        """Change a banner."""
        self.find("cms_banners", id, "banner")
        values, wrong = self._read_banner(id)
        if wrong:
            return self._banner_form(id, values, wrong, 422)
        self.db.update("cms_banners", id, **values)
        return self.go("/banners", f"{values['name']} was changed.")

    @page("/banners/{id:int}/delete", "POST", member=True)
    def no_banner(self, id: int) -> Response:
        """Delete a banner."""
        row = self.find("cms_banners", id, "banner")
        self._editor("delete banners")
        self.db.delete("cms_banners", id)
        return self.go("/banners", f"{row['name']} was deleted.")

    # -- media, tags, people ----------------------------------------------------------------------------------------

    @page("/media", member=True)
    def media(self) -> Response:
        """List the media of one kind, or all."""
        sort = self.query.get("sort", "name")
        rows = self.db.rows(
            f"""SELECT cms_media.*, title FROM cms_media LEFT JOIN cms_articles ON cms_articles.id = article_id
                WHERE kind = ?1 OR ?1 = '' ORDER BY {MEDIA_SORTS.get(sort, "name")}, cms_media.id""",
            self.query.get("kind"),
        )
        return self.show("media.html", found=self.paged(rows), kinds=KINDS, sort=sort)

    @page("/tags", member=True)
    def tags(self) -> Response:
        """List all tags with their numbers of articles."""
        rows = self.db.rows(
            """SELECT cms_tags.*, (SELECT count(*) FROM cms_taggings WHERE tag_id = cms_tags.id) AS used FROM cms_tags
               ORDER BY name, id"""
        )
        return self.show("tags.html", found=self.paged(rows))

    @page("/tags", "POST", member=True)
    def new_tag(self) -> Response:
        """Create a tag."""
        name = self.form.get("name")
        if not 0 < len(name) <= 40:
            return self.go("/tags", "Enter a name of 1 to 40 characters.")
        if self.db.row("SELECT id FROM cms_tags WHERE lower(name) = lower(?)", name):
            return self.go("/tags", f"The tag {name!r} already exists.")
        self.db.insert("cms_tags", name=name)
        return self.go("/tags", f"{name} was added.")

    @page("/tags/{id:int}/delete", "POST", member=True)
    def no_tag(self, id: int) -> Response:
        """Delete a tag that no article has."""
        row = self.find("cms_tags", id, "tag")
        used = self.db.value("SELECT count(*) FROM cms_taggings WHERE tag_id = ?", id)
        if used:
            return self.go("/tags", f"{row['name']} is used by {used} article(s) and cannot be deleted.")
        self.db.delete("cms_tags", id)
        return self.go("/tags", f"{row['name']} was deleted.")

    @page("/authors", member=True)
    def all_authors(self) -> Response:
        """List all authors with their numbers of articles."""
        rows = self.db.rows(
            """SELECT cms_authors.*, (SELECT count(*) FROM cms_articles WHERE author_id = cms_authors.id) AS written
               FROM cms_authors ORDER BY name"""
        )
        return self.show("authors.html", found=self.paged(rows))

    @page("/authors/{id:int}", member=True)
    def author(self, id: int) -> Response:
        """Show one author."""
        return self.show("author.html", author=self.find("cms_authors", id, "author"))

    @page("/categories", member=True)
    def categories(self) -> Response:
        """List the categories, with their heads and whether their articles require a review."""
        return self.show(
            "categories.html", found=self.paged(self.db.rows("SELECT * FROM cms_categories ORDER BY name"))
        )

    @page("/users", member=True)
    def users(self) -> Response:
        """List the users with their roles."""
        rows = self.db.rows("SELECT * FROM accounts WHERE site = ? ORDER BY name", self.name)
        return self.show("users.html", found=self.paged(rows), roles=ROLES)

    @page("/users/{id:int}/role", "POST", member=True)
    def role(self, id: int) -> Response:
        """Assign a role to a user; only the chief may."""
        if self.member["role"] != "chief":
            raise Refused("Only the chief can assign roles.")
        row, role = self.find("accounts", id, "user"), self.form.get(f"role{id}")
        if row["site"] != self.name or role not in ROLES or row["id"] == self.member["id"]:
            raise Refused("This role cannot be assigned.")
        self.db.update("accounts", id, role=role)
        return self.go("/users", f"{row['name']} is now {role}.")

    # -- internals --------------------------------------------------------------------------------------------------

    def _editor(self, does: str) -> None:
        if self.member["role"] == "reporter":
            raise Refused(f"Reporters cannot {does}.")

    def _banner_form(self, id: int, values: Row, wrong: dict[str, str], status: int = 200) -> Response:
        return self.show("banner.html", status, id=id, values=values, wrong=wrong, places=PLACES)

    def _read_banner(self, id: int) -> tuple[dict[str, str], dict[str, str]]:
        """Return the entered values and their errors, by field."""
        values = {name: self.form.get(name) for name in ("name", "place", "begins", "ends")}
        wrong = {} if 0 < len(values["name"]) <= 60 else {"name": "Enter between 1 and 60 characters."}
        if values["place"] not in PLACES:
            wrong["place"] = "Choose an option."
        first, last = (read_day(values[name]) for name in ("begins", "ends"))
        for name, day in (("begins", first), ("ends", last)):
            if day is None:
                wrong[name] = f"Enter a date such as {self.now.date()}."
        if first is not None and last is not None and last < first:
            wrong["ends"] = "The last day cannot be before the first day."
        other = self.db.row("SELECT * FROM cms_banners WHERE place = ? AND begins <= ? AND ends >= ? AND id <> ?",
                            values["place"], values["ends"], values["begins"], id)  # fmt: skip
        if not wrong and other is not None:
            wrong["place"] = f"{other['name']} is there from {other['begins']} to {other['ends']}."
        return values, wrong
