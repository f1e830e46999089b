"""Common parts of templates and solutions about to-do items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from ....rows.database import Row
from ....rows.expected import Text, plain
from ....rows.scene import Scene
from ..plan import Solver

BY_NAME = "SELECT todo_items.*, todo_lists.name AS list FROM todo_items JOIN todo_lists ON todo_lists.id = list_id"


@dataclass(frozen=True)
class Lines:
    """A text of these lines, in any order, and no others."""

    lines: tuple[str, ...]

    def matches(self, value: Any) -> bool:
        """Return whether a text has these lines and no others."""
        if not isinstance(value, str):
            return False
        return sorted(filter(None, map(plain, value.splitlines()))) == sorted(map(plain, self.lines))


def item_drawn(scene: Scene, where: str, *values: Any) -> Row:
    """Draw an item with a title that no other item has, on any list."""
    row = scene.row(f"{BY_NAME} WHERE {where}", *values)
    alike = scene.db.value("SELECT count(*) FROM todo_items WHERE lower(title) = lower(?)", row["title"])
    scene.need(alike == 1)
    return row


def date_text(day: str) -> Text:
    """Return a day as an answer."""
    at = date.fromisoformat(day)
    return Text(day, (f"{at.day} {at:%B %Y}", f"{at:%B} {at.day}, {at.year}"))


def items_where(scene: Scene, where: str, *values: Any) -> list[Row]:
    """Return the items that satisfy a condition, with the names of their lists."""
    return scene.db.rows(f"{BY_NAME} WHERE {where} ORDER BY todo_items.id", *values)


def list_number(api: Solver, name: str) -> int:
    """Return the id of the list with this name."""
    return int(next(found["list_id"] for found in api.call("todo_lists") if found["name"] == name))


def item_found(api: Solver, title: str, **conditions: Any) -> dict[str, Any]:
    """Return the item with this title."""
    items = api.pages("todo_search", words=title, **conditions)
    found: dict[str, Any] = next(item for item in items if item["title"] == title)
    return found
