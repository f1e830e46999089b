"""``Articles``: the pages of the newsroom for writing, reviewing and publishing articles."""

from __future__ import annotations

from typing import Any

from ....rows.database import Row
from ..http import Response, Values, number
from ..site import Refused, Site, page
from .desk import ARTICLES, CATEGORIES, STATES, TAGGED, read_day, slug_of

SORTS = {"name": "title", "newest": "publish_on DESC", "views": "views DESC"}
FIELDS = ("title", "slug", "category", "author", "lead", "text")
LONGEST = {"title": 120, "slug": 120, "lead": 300, "text": 8000}
BULK = ("hand_in", "to_draft", "delete")
"""Actions on several articles at once."""


class Articles(Site):
    """Pages of articles."""

    @page("/articles", member=True)
    def articles(self) -> Response:
        """List the articles that match the query."""
        query, sort = self.query, self.query.get("sort", "newest")
        rows = self.db.rows(
            f"""SELECT * FROM ({ARTICLES}) WHERE (instr(lower(title), lower(?1)) OR ?1 = '')
                AND (status = ?2 OR ?2 = '') AND (category = ?3 OR ?3 = '') AND (author = ?4 OR ?4 = '')
                ORDER BY {SORTS.get(sort, "publish_on DESC")}, id DESC""",
            *(query.get(name) for name in ("q", "status", "category", "author")),
        )
        bulk = [(one, self.word(one)) for one in BULK]
        found, authors = self.paged(rows), self.authors
        return self.show("articles.html", found=found, authors=authors, sort=sort, bulk=bulk, states=STATES,
                         categories=CATEGORIES)  # fmt: skip

    @page("/articles", "POST", member=True)
    def several(self) -> Response:
        """Apply an action to several articles; to none if one of them does not allow it."""
        how, back = self.form.get("how"), str(Values.of(self.form.get("back")))
        rows = [self._article(one) for one in dict.fromkeys(self.form.all("article"))]
        where = f"/articles?{back}" if back else "/articles"
        if how not in BULK or not rows:
            return self.go(where, "Select articles and an action.")
        for row in rows:
            self._may_change(row)
            if problem := self._unfit(row, how):
                return self.go(where, f"{row['title']}: {problem} Nothing was changed.")
        for row in rows:
            if how == "delete":
                self._delete(row["id"])
            else:
                self._set(row["id"], status="review" if how == "hand_in" else "draft", publish_on="")
        return self.go(where, f"Updated {len(rows)} article(s).")

    @page("/articles/{id:int}", member=True)
    def article(self, id: int) -> Response:
        """Show one article, and its possible actions."""
        row, tags = self.find(f"({ARTICLES})", id, "article"), self.db.rows(TAGGED, id)
        free = self.db.rows(
            """SELECT * FROM cms_tags WHERE id NOT IN (SELECT tag_id FROM cms_taggings WHERE article_id = ?)
               ORDER BY name, id""",
            id,
        )
        day = self.query.get("day")
        return self.show(
            "article.html", article=row, tags=tags, free=[(one["id"], one["name"]) for one in free], day=day
        )

    @page("/articles/new", member=True)
    def new(self) -> Response:
        """Show the form for a new article."""
        return self._form(0, dict.fromkeys(FIELDS, ""), {})

    @page("/articles/new", "POST", member=True)
    def made(self) -> Response:
        """Create a draft."""
        values, wrong = self._read(0)
        if wrong:
            return self._form(0, values, wrong, 422)
        columns = self._columns(values)
        id = self.db.insert("cms_articles", **columns, status="draft", publish_on="", views=0, created_at=self.stamp)
        return self.go(f"/articles/{id}", "The draft was created.")

    @page("/articles/{id:int}/edit", member=True)
    def edit(self, id: int) -> Response:
        """Show the form for an existing article."""
        row = self.find(f"({ARTICLES})", id, "article")
        self._may_change(row)
        return self._form(id, {name: row[name] for name in FIELDS}, {})

    @page("/articles/{id:int}/edit", "POST", member=True)
    def edited(self, id: int) -> Response:
        """Change an article."""
        self._may_change(self.find(f"({ARTICLES})", id, "article"))
        values, wrong = self._read(id)
        if wrong:
            return self._form(id, values, wrong, 422)
        self.db.update("cms_articles", id, **self._columns(values))
        return self.go(f"/articles/{id}", "The article was changed.")

    @page("/articles/{id:int}/state", "POST", member=True)
    def state(self, id: int) -> Response:
        """Submit an article for review, return it to drafts, publish or schedule it."""
        row, how, where = self.find(f"({ARTICLES})", id, "article"), self.form.get("how"), f"/articles/{id}"
        self._may_change(row)
        if how in ("publish", "schedule") and self.member["role"] == "reporter":
            raise Refused("Reporters submit their articles for review; only editors can publish them.")
        if problem := self._unfit(row, how):
            return self.go(where, problem)
        if how in ("hand_in", "to_draft"):
            self._set(id, status="review" if how == "hand_in" else "draft", publish_on="")
        elif how == "publish":
            self._set(id, status="published", publish_on=self.now.date().isoformat())
        else:
            day = read_day(self.form.get("day"))
            if day is None or day <= self.now.date():
                said = f"{self.form.get('day')[:20]!r} is not a future date such as {self.now.date()}."
                return self.go(where, said)
            self._set(id, status="scheduled", publish_on=day.isoformat())
        return self.go(where, f"{row['title']}: {self.find('cms_articles', id, 'article')['status']}.")

    @page("/articles/{id:int}/tags", "POST", member=True)
    def tag(self, id: int) -> Response:
        """Add a tag to an article, or remove one."""
        row = self.find(f"({ARTICLES})", id, "article")
        self._may_change(row)
        tag = self.find("cms_tags", number(self.form.get("tag")), "tag")
        had = self.db.row("SELECT * FROM cms_taggings WHERE article_id = ? AND tag_id = ?", id, tag["id"])
        if self.form.get("how") == "off":
            if had is not None:
                self.db.delete("cms_taggings", had["id"])
            return self.go(f"/articles/{id}", f"{tag['name']} was removed from this article.")
        if had is None:
            self.db.insert("cms_taggings", article_id=id, tag_id=tag["id"])
        return self.go(f"/articles/{id}", f"{tag['name']} was added to this article.")

    # -- internals --------------------------------------------------------------------------------------------------

    @property
    def authors(self) -> list[str]:
        """Names of all authors."""
        return [row["name"] for row in self.db.rows("SELECT name FROM cms_authors ORDER BY name")]

    def _article(self, id: str) -> Row:
        return self.find(f"({ARTICLES})", number(id), "article")

    def _may_change(self, row: Row) -> None:
        if self.member["role"] == "reporter" and row["author"] != self.member["name"]:
            raise Refused(f"This article is by {row['author']}. Reporters can change only their own articles.")

    def _unfit(self, row: Row, how: str) -> str:
        """Return why an action on an article is impossible; empty if it is possible."""
        states = {
            "hand_in": ("draft",),
            "to_draft": ("review", "scheduled", "published"),
            "publish": ("draft", "review", "scheduled"),
            "schedule": ("draft", "review", "scheduled"),
            "delete": ("draft",),
        }
        if how not in states:
            return "Unknown action."
        if row["status"] not in states[how]:
            return f"This is not possible while the status is {row['status']}."
        rule = self.db.row("SELECT * FROM cms_categories WHERE name = ?", row["category"])
        if how in ("publish", "schedule") and row["status"] == "draft" and rule is not None and rule["review"]:
            return f"Drafts in {row['category']} must be reviewed before they are published."
        return ""

    def _set(self, id: int, **columns: Any) -> None:
        self.db.update("cms_articles", id, **columns)

    def _delete(self, id: int) -> None:
        for table in ("cms_taggings", "cms_comments"):
            for row in self.db.rows(f"SELECT id FROM {table} WHERE article_id = ?", id):
                self.db.delete(table, row["id"])
        for row in self.db.rows("SELECT id FROM cms_media WHERE article_id = ?", id):
            self.db.update("cms_media", row["id"], article_id=0)
        self.db.delete("cms_articles", id)

    def _form(self, id: int, values: dict[str, str], wrong: dict[str, str], status: int = 200) -> Response:
        lists = {"categories": CATEGORIES, "authors": self.authors}
        return self.show("form.html", status, id=id, values=values, wrong=wrong, **lists)

    def _read(self, id: int) -> tuple[dict[str, str], dict[str, str]]:
        """Return the entered values and their errors, by field."""
        values = {name: self.form.get(name) for name in FIELDS}
        wrong = {
            name: f"Enter between 1 and {most} characters."
            for name, most in LONGEST.items()
            if not 0 < len(values[name]) <= most
        }
        if values["slug"] and slug_of(values["slug"]) != values["slug"]:
            wrong["slug"] = "Use only lowercase a-z, digits, and single hyphens between them."
        elif other := self.db.row("SELECT * FROM cms_articles WHERE slug = ? AND id <> ?", values["slug"], id):
            wrong["slug"] = f"This is already the slug of {other['title']!r}."
        if values["category"] not in CATEGORIES:
            wrong["category"] = "Choose an option."
        if values["author"] not in self.authors:
            wrong["author"] = "Choose an option."
        elif self.member["role"] == "reporter" and values["author"] != self.member["name"]:
            wrong["author"] = "Reporters can only write under their own name."
        return values, wrong

    def _columns(self, values: dict[str, str]) -> dict[str, Any]:
        author = self.db.value("SELECT id FROM cms_authors WHERE name = ?", values["author"])
        kept = {name: value for name, value in values.items() if name != "author"}
        return {**kept, "author_id": author}
