"""``Todo``: to-do lists and their items."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from .....errors import ToolError
from ....rows.database import Row
from ..app import App, Body, Id, Maybe, Page, Words, call, day

Priority = Literal["low", "normal", "high"]
ITEMS = """SELECT todo_items.*, todo_lists.name AS list FROM todo_items
    JOIN todo_lists ON todo_lists.id = todo_items.list_id
    WHERE (?1 IS NULL OR done = ?1) AND (?2 IS NULL OR priority = ?2)
    AND (?3 = '' OR due >= ?3) AND (?4 = '' OR due != '' AND due <= ?4) AND """
ORDER = " ORDER BY due = '', due, todo_items.id"


class Todo(App):
    """The user's to-do lists."""

    name = "todo"
    about = "to-do lists: items with a due date and a priority"
    ids: ClassVar[dict[str, str]] = {"item_id": "todo_items", "list_id": "todo_lists"}
    stray = ("todo_create_list", {"name": "Nothing at all"})

    @call
    def lists(self) -> list[dict[str, Any]]:
        """List all to-do lists by name, each with its number of open and completed items."""
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
        """List the items of a list, earliest due date first. An item must match every condition you give.

        Args:
            list_id: ID of the list.
            done: true for completed items only, false for open items only.
            priority: only items with this priority.
            due_since: only items due on this day or later, such as 2025-05-14.
            due_until: only items due on this day or earlier.
            page: page of the results, starting at 1.
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
        """Search the items of all lists, earliest due date first. An item must match every condition you give.

        Args:
            words: text to find in the title or the notes.
            done: true for completed items only, false for open items only.
            priority: only items with this priority.
            due_since: only items due on this day or later, such as 2025-05-14.
            due_until: only items due on this day or earlier.
            page: page of the results, starting at 1.
        """
        where = "(?5 = '' OR instr(lower(title), lower(?5)) OR instr(lower(notes), lower(?5)))"
        return self._found(where, words, done, priority, due_since, due_until, page)

    @call
    def get(self, item_id: Id) -> dict[str, Any]:
        """Show all details of an item, including its notes.

        Args:
            item_id: ID of the item.
        """
        row = self.find("todo_items", item_id, "item")
        name = self.db.value("SELECT name FROM todo_lists WHERE id = ?", row["list_id"])
        return {**_brief({**row, "list": name}), "notes": row["notes"], "created_at": row["created_at"]}

    @call
    def create_list(self, name: Words) -> dict[str, Any]:
        """Create an empty list.

        Args:
            name: name of the list; no other list may have it.
        """
        if self.db.row("SELECT id FROM todo_lists WHERE lower(name) = lower(?)", name):
            raise ToolError(f"409 a list named {name!r} already exists")
        return {"list_id": self.db.insert("todo_lists", name=name, created_at=self.stamp), "name": name}

    @call
    def delete_list(self, list_id: Id) -> str:
        """Delete an empty list.

        Args:
            list_id: ID of the list; it must not contain any items.
        """
        self.find("todo_lists", list_id, "list")
        held = self.db.value("SELECT count(*) FROM todo_items WHERE list_id = ?", list_id)
        if held:
            raise ToolError(f"409 list {list_id} is not empty: it contains {held} item(s)")
        self.db.delete("todo_lists", list_id)
        return f"deleted list {list_id}"

    @call
    def add(
        self, list_id: Id, title: Words, due: Maybe = "", priority: Priority = "normal", notes: Body = ""
    ) -> dict[str, Any]:
        """Add an item to a list.

        Args:
            list_id: ID of the list.
            title: text of the item.
            due: due date, such as 2025-05-14.
            priority: priority of the item.
            notes: longer text.
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
        """Change an item. Fields that you omit keep their values.

        Args:
            item_id: ID of the item.
            title: text of the item.
            due: due date, such as 2025-05-14; an empty string removes it.
            priority: priority of the item.
            notes: longer text.
        """
        self.find("todo_items", item_id, "item")
        given = {"title": title, "due": due and day(due, "due"), "priority": priority, "notes": notes}
        changed = {name: value for name, value in given.items() if value is not None}
        if not changed:
            raise ToolError("422 specify at least one field to change")
        self.db.update("todo_items", item_id, **changed)
        return {"item_id": item_id, **changed}

    @call
    def complete(self, item_id: Id) -> dict[str, Any]:
        """Mark an item as completed.

        Args:
            item_id: ID of the item.
        """
        return self._ticked(item_id, True)

    @call
    def reopen(self, item_id: Id) -> dict[str, Any]:
        """Mark a completed item as open again.

        Args:
            item_id: ID of the item.
        """
        return self._ticked(item_id, False)

    @call
    def move(self, item_id: Id, list_id: Id) -> dict[str, Any]:
        """Move an item to another list.

        Args:
            item_id: ID of the item.
            list_id: ID of the list to move it to.
        """
        row = self.find("todo_items", item_id, "item")
        self.find("todo_lists", list_id, "list")
        if row["list_id"] == list_id:
            raise ToolError(f"409 item {item_id} is already in list {list_id}")
        self.db.update("todo_items", item_id, list_id=list_id)
        return {"item_id": item_id, "list_id": list_id}

    @call
    def delete(self, item_id: Id) -> str:
        """Delete an item permanently.

        Args:
            item_id: ID of the item.
        """
        self.find("todo_items", item_id, "item")
        self.db.delete("todo_items", item_id)
        return f"deleted item {item_id}"

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
            raise ToolError(f"409 item {item_id} is {'already completed' if done else 'not completed'}")
        self.db.update("todo_items", item_id, done=int(done))
        return {"item_id": item_id, "done": done}


def _brief(row: Row) -> dict[str, Any]:
    shown = {name: row[name] for name in ("title", "due", "priority", "list_id", "list")}
    return {"item_id": row["id"], **shown, "done": bool(row["done"])}
