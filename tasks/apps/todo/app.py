"""``Todo``: lists of things to do."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from ....errors import ToolError
from ...rows.database import Row
from ..world.app import App, Body, Id, Maybe, Page, Words, call, day

Priority = Literal["low", "normal", "high"]
ITEMS = """SELECT todo_items.*, todo_lists.name AS list FROM todo_items
    JOIN todo_lists ON todo_lists.id = todo_items.list_id
    WHERE (?1 IS NULL OR done = ?1) AND (?2 IS NULL OR priority = ?2)
    AND (?3 = '' OR due >= ?3) AND (?4 = '' OR due != '' AND due <= ?4) AND """
ORDER = " ORDER BY due = '', due, todo_items.id"


class Todo(App):
    """The user's lists of things to do."""

    name = "todo"
    about = "lists of things to do: items with a due day and a priority"
    ids: ClassVar[dict[str, str]] = {"item_id": "todo_items", "list_id": "todo_lists"}
    stray = ("todo_create_list", {"name": "Nothing at all"})
    schema: ClassVar[str] = """
        CREATE TABLE todo_lists (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, created_at TEXT);
        CREATE TABLE todo_items (id INTEGER PRIMARY KEY AUTOINCREMENT, list_id INTEGER, title TEXT, notes TEXT,
            due TEXT, priority TEXT, done INTEGER, created_at TEXT);
        CREATE INDEX todo_items_by_list ON todo_items (list_id);
    """

    @call
    def lists(self) -> list[dict[str, Any]]:
        """All lists, by name, with how many of their items are open and how many are done."""
        return self.db.rows(
            """SELECT todo_lists.id AS list_id, name, count(CASE WHEN done = 0 THEN 1 END) AS open,
               count(CASE WHEN done = 1 THEN 1 END) AS done
               FROM todo_lists LEFT JOIN todo_items ON list_id = todo_lists.id GROUP BY todo_lists.id ORDER BY name"""
        )

    @call
    def items(
        self,
        list_id: Id,
        done: bool | None = None,
        priority: Priority | None = None,
        due_since: Maybe = "",
        due_until: Maybe = "",
        page: Page = 1,
    ) -> dict[str, Any]:
        """The items of a list, those that are due first before others; several conditions must all hold.

        Args:
            list_id: which list.
            done: only those that are done, or only those that are not.
            priority: only those of this priority.
            due_since: only those that are due on this day or later, such as 2025-05-14.
            due_until: only those that are due on this day or earlier.
            page: of the listing.
        """
        self.find("todo_lists", list_id, "list")
        return self._found("list_id = ?5", list_id, done, priority, due_since, due_until, page)

    @call
    def search(
        self,
        words: Maybe = "",
        done: bool | None = None,
        priority: Priority | None = None,
        due_since: Maybe = "",
        due_until: Maybe = "",
        page: Page = 1,
    ) -> dict[str, Any]:
        """Find items in all lists, those that are due first before others; several conditions must all hold.

        Args:
            words: stand in the title or in the notes.
            done: only those that are done, or only those that are not.
            priority: only those of this priority.
            due_since: only those that are due on this day or later, such as 2025-05-14.
            due_until: only those that are due on this day or earlier.
            page: of the listing.
        """
        where = "(?5 = '' OR instr(lower(title), lower(?5)) OR instr(lower(notes), lower(?5)))"
        return self._found(where, words, done, priority, due_since, due_until, page)

    @call
    def get(self, item_id: Id) -> dict[str, Any]:
        """Everything about an item, with its notes.

        Args:
            item_id: which.
        """
        row = self.find("todo_items", item_id, "item")
        name = self.db.value("SELECT name FROM todo_lists WHERE id = ?", row["list_id"])
        return {**_brief({**row, "list": name}), "notes": row["notes"], "created_at": row["created_at"]}

    @call
    def create_list(self, name: Words) -> dict[str, Any]:
        """Make an empty list.

        Args:
            name: that no other list has.
        """
        if self.db.row("SELECT id FROM todo_lists WHERE lower(name) = lower(?)", name):
            raise ToolError(f"409 there is a list {name!r} already")
        return {"list_id": self.db.insert("todo_lists", name=name, created_at=self.stamp), "name": name}

    @call
    def delete_list(self, list_id: Id) -> str:
        """Remove a list.

        Args:
            list_id: which; there must be no item in it.
        """
        self.find("todo_lists", list_id, "list")
        held = self.db.value("SELECT count(*) FROM todo_items WHERE list_id = ?", list_id)
        if held:
            raise ToolError(f"409 list {list_id} is not empty: {held} items are in it")
        self.db.delete("todo_lists", list_id)
        return f"list {list_id} is deleted"

    @call
    def add(
        self, list_id: Id, title: Words, due: Maybe = "", priority: Priority = "normal", notes: Body = ""
    ) -> dict[str, Any]:
        """Put a new item into a list.

        Args:
            list_id: which list.
            title: what is to be done.
            due: the day until which it must be done, such as 2025-05-14.
            priority: how much it matters.
            notes: a longer text.
        """
        self.find("todo_lists", list_id, "list")
        columns = {"title": title, "due": due and day(due, "due"), "priority": priority, "notes": notes}
        id = self.db.insert("todo_items", list_id=list_id, **columns, done=0, created_at=self.stamp)
        return {"item_id": id, "list_id": list_id}

    @call
    def update(
        self,
        item_id: Id,
        title: Words | None = None,
        due: Maybe | None = None,
        priority: Priority | None = None,
        notes: Body | None = None,
    ) -> dict[str, Any]:
        """Change an item; what is left out stays.

        Args:
            item_id: which.
            title: what is to be done.
            due: the day until which it must be done, such as 2025-05-14; an empty text: there is none any more.
            priority: how much it matters.
            notes: a longer text.
        """
        self.find("todo_items", item_id, "item")
        given = {"title": title, "due": due and day(due, "due"), "priority": priority, "notes": notes}
        changed = {name: value for name, value in given.items() if value is not None}
        if not changed:
            raise ToolError("422 say what is to be changed")
        self.db.update("todo_items", item_id, **changed)
        return {"item_id": item_id, **changed}

    @call
    def complete(self, item_id: Id) -> dict[str, Any]:
        """Tick an item off: it is done.

        Args:
            item_id: which.
        """
        return self._ticked(item_id, True)

    @call
    def reopen(self, item_id: Id) -> dict[str, Any]:
        """Take back that an item is done.

        Args:
            item_id: which.
        """
        return self._ticked(item_id, False)

    @call
    def move(self, item_id: Id, list_id: Id) -> dict[str, Any]:
        """Put an item into another list.

        Args:
            item_id: which.
            list_id: where to.
        """
        row = self.find("todo_items", item_id, "item")
        self.find("todo_lists", list_id, "list")
        if row["list_id"] == list_id:
            raise ToolError(f"409 item {item_id} is in list {list_id} already")
        self.db.update("todo_items", item_id, list_id=list_id)
        return {"item_id": item_id, "list_id": list_id}

    @call
    def delete(self, item_id: Id) -> str:
        """Remove an item for ever.

        Args:
            item_id: which.
        """
        self.find("todo_items", item_id, "item")
        self.db.delete("todo_items", item_id)
        return f"item {item_id} is deleted"

    def _found(
        self,
        where: str,
        value: str | int,
        done: bool | None,
        priority: str | None,
        since: str,
        until: str,
        page: int,
    ) -> dict[str, Any]:
        span = since and day(since, "due_since"), until and day(until, "due_until")
        state = None if done is None else int(done)
        rows = self.db.rows(ITEMS + where + ORDER, state, priority, *span, value)
        return self.paged([_brief(row) for row in rows], page)

    def _ticked(self, item_id: int, done: bool) -> dict[str, Any]:
        row = self.find("todo_items", item_id, "item")
        if bool(row["done"]) is done:
            raise ToolError(f"409 item {item_id} is {'done already' if done else 'not done'}")
        self.db.update("todo_items", item_id, done=int(done))
        return {"item_id": item_id, "done": done}


def _brief(row: Row) -> dict[str, Any]:
    shown = {name: row[name] for name in ("title", "due", "priority", "list_id", "list")}
    return {"item_id": row["id"], **shown, "done": bool(row["done"])}
