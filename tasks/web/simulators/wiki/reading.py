"""``Reading``: the public pages of the wiki: search, pages, and their changes."""

from __future__ import annotations

from ....rows.database import Row
from ..http import Response
from ..site import Site, page
from .company import SECTIONS

PAGES = """SELECT wiki_pages.*, coalesce(changed, '') AS changed, coalesce(versions, 0) AS versions FROM wiki_pages
    LEFT JOIN (SELECT page_id, max(created_at) AS changed, count(*) AS versions FROM wiki_revisions GROUP BY page_id)
    AS past ON past.page_id = wiki_pages.id"""
FACTS = """SELECT wiki_facts.*, title FROM wiki_facts LEFT JOIN wiki_pages ON wiki_pages.id = to_page_id
    WHERE page_id = ? ORDER BY wiki_facts.id"""
CHANGES = """SELECT wiki_revisions.*, title, section FROM wiki_revisions
    JOIN wiki_pages ON wiki_pages.id = page_id"""
SORTS = {"name": "title", "changed": "changed DESC", "oldest": "changed"}


class Reading(Site):
    """The public pages of the wiki."""

    @page("/")
    def front(self) -> Response:
        """Show the sections and the search form."""
        return self.show("front.html", sections=SECTIONS)

    @page("/pages")
    def pages(self) -> Response:
        """List the pages that match the query, matching titles before matching texts."""
        sort = self.query.get("sort", "name")
        rows = self.db.rows(
            f"""SELECT * FROM ({PAGES}) WHERE (section = ?2 OR ?2 = '') AND (?1 = '' OR
                instr(lower(title), lower(?1)) OR id IN (SELECT page_id FROM wiki_parts
                WHERE instr(lower(body), lower(?1)) OR instr(lower(head), lower(?1))))
                ORDER BY instr(lower(title), lower(?1)) = 0, {SORTS.get(sort, "title")}, title, id""",
            self.query.get("q"),
            self.query.get("section"),
        )
        return self.show("pages.html", found=self.paged(rows), sections=SECTIONS, sort=sort)

    @page("/pages/{id:int}")
    def one(self, id: int) -> Response:
        """Show one page."""
        return self.show(
            "page.html",
            page=self.find(f"({PAGES})", id, "page"),
            facts=self.db.rows(FACTS, id),
            body=self.db.rows("SELECT * FROM wiki_parts WHERE page_id = ? ORDER BY position, id", id),
            watched=self.watched(id),
            pointing=self.db.rows(
                """SELECT DISTINCT wiki_pages.* FROM wiki_pages JOIN wiki_facts ON page_id = wiki_pages.id
                   WHERE to_page_id = ? ORDER BY title LIMIT 5""",
                id,
            ),
        )

    @page("/pages/{id:int}/history")
    def history(self, id: int) -> Response:
        """List all versions of a page, newest first."""
        row = self.find("wiki_pages", id, "page")
        rows = self.db.rows(f"{CHANGES} WHERE page_id = ? ORDER BY created_at DESC, wiki_revisions.id DESC", id)
        return self.show("history.html", page=row, found=self.paged(rows))

    @page("/versions/{id:int}")
    def version(self, id: int) -> Response:
        """Show one version of a paragraph."""
        return self.show("version.html", version=self.find(f"({CHANGES})", id, "version"))

    @page("/changes")
    def changes(self) -> Response:
        """List the changes of all pages, newest first."""
        rows = self.db.rows(
            f"""{CHANGES} WHERE (author = ?1 OR ?1 = '') AND (section = ?2 OR ?2 = '')
                ORDER BY created_at DESC, wiki_revisions.id DESC""",
            self.query.get("editor"),
            self.query.get("section"),
        )
        editors = [row["author"] for row in self.db.rows("SELECT DISTINCT author FROM wiki_revisions ORDER BY author")]
        return self.show("changes.html", found=self.paged(rows), editors=editors, sections=SECTIONS)

    @page("/pages/{id:int}/talk")
    def talk(self, id: int) -> Response:
        """List the comments on a page."""
        row = self.find("wiki_pages", id, "page")
        rows = self.db.rows("SELECT * FROM wiki_comments WHERE page_id = ? ORDER BY created_at DESC, id DESC", id)
        return self.show("talk.html", page=row, found=self.paged(rows))

    def watched(self, page: int) -> Row | None:
        """Return the row for a page on the logged-in member's watch list, or ``None``."""
        account = self.visit.account
        return self.db.row("SELECT * FROM wiki_watches WHERE account_id = ? AND page_id = ?", account, page)
