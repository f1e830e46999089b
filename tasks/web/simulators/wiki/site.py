"""``Wiki``: a company wiki of pages with facts and paragraphs, their versions, and comments."""

from __future__ import annotations

from typing import ClassVar

from ....rows.database import Row
from ..http import Response
from ..site import Refused, page
from .company import SECTIONS
from .reading import FACTS, PAGES, Reading

LONGEST = 4000
"""Most characters of a paragraph."""


class Wiki(Reading):
    """The company wiki."""

    name = "wiki"
    title = "Northfold Wiki"
    about = "A company wiki: handbook, products, how-tos, people, teams and offices."
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"wiki_watches": ("account_id", "page_id")}
    menu = (("pages", "/pages"), ("changes", "/changes"), ("watching", "/watching"), ("new_page", "/new"))
    stray = ("/pages/1/talk", {"text": "Nobody asked for this."})

    # -- changing pages ---------------------------------------------------------------------------------------------

    @page("/parts/{id:int}/edit", member=True)
    def edit(self, id: int) -> Response:
        """Show the form for a paragraph."""
        part = self.find("wiki_parts", id, "paragraph")
        row = self._open(part["page_id"])
        return self.show("edit.html", page=row, part=part, body=part["body"], note="", wrong={})

    @page("/parts/{id:int}/edit", "POST", member=True)
    def edited(self, id: int) -> Response:
        """Change a paragraph."""
        part = self.find("wiki_parts", id, "paragraph")
        row = self._open(part["page_id"])
        body, note = self.form.get("body"), self.form.get("note")
        wrong = self._wrong(body, note)
        if body == part["body"]:
            wrong.setdefault("body", "The text is unchanged.")
        if wrong:
            return self.show("edit.html", 422, page=row, part=part, body=body, note=note, wrong=wrong)
        self.db.update("wiki_parts", id, body=body)
        self._noted(row["id"], id, part["head"], note, body)
        return self.go(f"/pages/{row['id']}", f"{part['head']} was changed.")

    @page("/pages/{id:int}/parts", member=True)
    def more(self, id: int) -> Response:
        """Show the form for a new paragraph."""
        return self.show("part.html", page=self._open(id), head="", body="", note="", wrong={})

    @page("/pages/{id:int}/parts", "POST", member=True)
    def added(self, id: int) -> Response:
        """Append a paragraph to a page."""
        row = self._open(id)
        head, body, note = (self.form.get(name) for name in ("head", "body", "note"))
        wrong = self._wrong(body, note)
        heads = {one["head"].lower() for one in self.db.rows("SELECT head FROM wiki_parts WHERE page_id = ?", id)}
        if not 0 < len(head) <= 80:
            wrong["head"] = "Enter between 1 and 80 characters."
        elif head.lower() in heads:
            wrong["head"] = "The page already has a paragraph with this heading."
        if wrong:
            return self.show("part.html", 422, page=row, head=head, body=body, note=note, wrong=wrong)
        part = self.db.insert("wiki_parts", page_id=id, position=len(heads) + 1, head=head, body=body)
        self._noted(id, part, head, note, body)
        return self.go(f"/pages/{id}", f"{head} was added.")

    @page("/pages/{id:int}/facts", member=True)
    def facts(self, id: int) -> Response:
        """Show the form for facts."""
        row, facts = self._open(id), self._own_facts(id)
        values = {fact["id"]: fact["value"] for fact in facts}
        return self.show("facts.html", page=row, facts=facts, values=values, note="", wrong={})

    @page("/pages/{id:int}/facts", "POST", member=True)
    def facts_set(self, id: int) -> Response:
        """Change facts; those that link to other pages stay."""
        row, facts, note = self._open(id), self._own_facts(id), self.form.get("note")
        values = {fact["id"]: self.form.get(f"fact{fact['id']}", fact["value"]) for fact in facts}
        wrong = {str(fact): "Enter between 1 and 80 characters." for fact, value in values.items()
                 if not 0 < len(value) <= 80}  # fmt: skip
        if not note:
            wrong["note"] = "Enter what you changed."
        changed = [fact for fact in facts if values[fact["id"]] != fact["value"]]
        if not changed:
            wrong["note"] = "Nothing was changed."
        if wrong:
            return self.show("facts.html", 422, page=row, facts=facts, values=values, note=note, wrong=wrong)
        for fact in changed:
            self.db.update("wiki_facts", fact["id"], value=values[fact["id"]])
            self._noted(id, 0, fact["label"], note, values[fact["id"]])
        return self.go(f"/pages/{id}", "The facts were changed.")

    @page("/versions/{id:int}/restore", "POST", member=True)
    def restored(self, id: int) -> Response:
        """Restore an earlier version of a paragraph."""
        version = self.find("wiki_revisions", id, "version")
        row = self._open(version["page_id"])
        part = self.db.row("SELECT * FROM wiki_parts WHERE id = ?", version["part_id"])
        if part is None:
            return self.go(f"/versions/{id}", "Only paragraphs can be restored.")
        if part["body"] == version["body"]:
            return self.go(f"/versions/{id}", "The text is unchanged.")
        self.db.update("wiki_parts", part["id"], body=version["body"])
        self._noted(row["id"], part["id"], part["head"], f"restored version {id}", version["body"])
        return self.go(f"/pages/{row['id']}", f"{part['head']} was restored to version {id}.")

    # -- a new page -------------------------------------------------------------------------------------------------

    @page("/new", member=True)
    def new(self) -> Response:
        """First step: show the form for title and section."""
        kept = self.visit.kept
        return self.show("new.html", sections=SECTIONS, name=kept.get("title", ""), chosen=kept.get("section", ""))

    @page("/new", "POST", member=True)
    def named(self) -> Response:
        """Store title and section, unless such a page exists."""
        title, section = self.form.get("title"), self.form.get("section")
        self.keep(title=title[:100], section=section if section in SECTIONS else None)
        if not 0 < len(title) <= 80:
            return self.go("/new", "Enter a name of 1 to 80 characters.")
        if section not in SECTIONS:
            return self.go("/new", "Choose a section for the page.")
        if self.db.row("SELECT id FROM wiki_pages WHERE lower(title) = lower(?)", title):
            return self.go("/new", f"A page named {title!r} already exists.")
        return self.go("/new/text")

    @page("/new/text", member=True)
    def new_text(self) -> Response:
        """Second step: show the form for the first paragraph."""
        kept = self._begun()
        return self.show("new_text.html", head=kept.get("head", ""), body=kept.get("body", ""), wrong={})

    @page("/new/text", "POST", member=True)
    def written(self) -> Response:
        """Store the first paragraph."""
        self._begun()
        head, body = self.form.get("head"), self.form.get("body")
        wrong = {} if 0 < len(body) <= LONGEST else {"body": f"Enter between 1 and {LONGEST} characters."}
        if not 0 < len(head) <= 80:
            wrong["head"] = "Enter between 1 and 80 characters."
        if wrong:
            return self.show("new_text.html", 422, head=head, body=body, wrong=wrong)
        self.keep(head=head, body=body)
        return self.go("/new/preview")

    @page("/new/preview", member=True)
    def preview(self) -> Response:
        """Third step: show a preview."""
        return self.show("preview.html", kept=self._begun(whole=True))

    @page("/new/publish", "POST", member=True)
    def published(self) -> Response:
        """Create the page."""
        kept = self._begun(whole=True)
        if self.db.row("SELECT id FROM wiki_pages WHERE lower(title) = lower(?)", kept["title"]):
            return self.go("/new", f"A page named {kept['title']!r} already exists.")
        id = self.db.insert("wiki_pages", title=kept["title"], section=kept["section"], protected_by="")
        part = self.db.insert("wiki_parts", page_id=id, position=1, head=kept["head"], body=kept["body"])
        self._noted(id, part, kept["head"], "first version", kept["body"])
        self.keep(title=None, section=None, head=None, body=None)
        return self.go(f"/pages/{id}", "The page was published.")

    # -- talk and watching ------------------------------------------------------------------------------------------

    @page("/pages/{id:int}/talk", "POST", member=True)
    def said(self, id: int) -> Response:
        """Comment on a page, whether it is protected or not."""
        self.find("wiki_pages", id, "page")
        text = self.form.get("text")
        if not 0 < len(text) <= 1000:
            return self.go(f"/pages/{id}/talk", "A comment needs between 1 and 1000 characters.")
        columns = {"page_id": id, "author": self.member["name"], "text": text}
        self.db.insert("wiki_comments", **columns, created_at=self.stamp)
        return self.go(f"/pages/{id}/talk", "Your comment was added.")

    @page("/comments/{id:int}/delete", "POST", member=True)
    def unsaid(self, id: int) -> Response:
        """Delete the member's own comment."""
        row = self.find("wiki_comments", id, "comment")
        if row["author"] != self.member["name"]:
            raise Refused("This is someone else's comment.")
        self.db.delete("wiki_comments", id)
        return self.go(f"/pages/{row['page_id']}/talk", "The comment was deleted.")

    @page("/watching", member=True)
    def watching(self) -> Response:
        """List the pages that the member watches."""
        mine = "SELECT page_id FROM wiki_watches WHERE account_id = ?"
        rows = self.db.rows(f"SELECT * FROM ({PAGES}) WHERE id IN ({mine}) ORDER BY title, id", self.member["id"])
        return self.show("watching.html", found=self.paged(rows))

    @page("/pages/{id:int}/watch", "POST", member=True)
    def watch(self, id: int) -> Response:
        """Watch a page, or stop watching it; from the list, return to the list."""
        row, had, off = self.find("wiki_pages", id, "page"), self.watched(id), self.form.get("how") == "off"
        if off and had is not None:
            self.db.delete("wiki_watches", had["id"])
        elif not off and had is None:
            self.db.insert("wiki_watches", account_id=self.member["id"], page_id=id)
        where = "/watching" if self.form.get("from") == "list" else f"/pages/{id}"
        return self.go(where, f"{row['title']} is {'no longer' if off else 'now'} on your list.")

    # -- internals --------------------------------------------------------------------------------------------------

    def _open(self, id: int) -> Row:
        """Return a page that the member may change."""
        row = self.find("wiki_pages", id, "page")
        if row["protected_by"] and row["protected_by"] != self.member["name"]:
            raise Refused(f"This page is protected: only {row['protected_by']} may change it.")
        return row

    def _own_facts(self, id: int) -> list[Row]:
        return [fact for fact in self.db.rows(FACTS, id) if not fact["to_page_id"]]

    def _wrong(self, body: str, note: str) -> dict[str, str]:
        wrong = {} if 0 < len(body) <= LONGEST else {"body": f"Enter between 1 and {LONGEST} characters."}
        return wrong if 0 < len(note) <= 200 else {**wrong, "note": "Enter what you changed, in up to 200 characters."}

    def _begun(self, *, whole: bool = False) -> dict[str, str]:
        kept = dict(self.visit.kept)
        if not {"title", "section", *(("head", "body") if whole else ())} <= kept.keys():
            raise Refused("Enter the name of the page first.", 409)
        return kept

    def _noted(self, page: int, part: int, what: str, note: str, body: str) -> None:
        author = self.member["name"]
        columns = {"page_id": page, "part_id": part, "what": what, "author": author, "note": note, "body": body}
        self.db.insert("wiki_revisions", **columns, created_at=self.stamp)
