"""The calls of the lists of things to do."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import ToolError
from turnwise.tasks.apps.simulators.account.app import Account
from turnwise.tasks.apps.simulators.situation import Rules, Situation
from turnwise.tasks.apps.simulators.todo.app import Todo
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.apps.templates.todo.drawing import Lines
from turnwise.tasks.rows.database import Database
from turnwise.tasks.rows.expected import AtLeast


@pytest.fixture
def world() -> World:
    db = Database()
    for app in (Account, Todo):
        db.make(app.schema())
    for name in ("Work", "Home", "Empty"):
        db.insert("todo_lists", name=name, created_at="")
    _item(db, 1, 1, "Write the report", "2025-05-20", "high", 0)
    _item(db, 2, 1, "Write the letter", "", "normal", 0)
    _item(db, 3, 1, "Send the letter", "2025-05-10", "low", 1)
    _item(db, 4, 2, "Write the letter", "2025-05-12", "normal", 0)
    db.forget()
    return World(db, Situation(datetime(2025, 5, 14, 8)), Rules(login=False, per_page=3), (Account, Todo))


def _item(db: Database, number: int, list_id: int, title: str, due: str, priority: str, done: int) -> None:
    about = {"title": title, "due": due, "priority": priority, "done": done, "notes": f"note {number}"}
    db.insert("todo_items", id=number, list_id=list_id, **about, created_at="")


def _found(world: World, name: str, **arguments: object) -> list[int]:
    return [item["item_id"] for item in world.call(f"todo_{name}", arguments)["items"]]


def test_lists_count_their_items(world: World) -> None:
    counts = [(one["name"], one["open"], one["done"]) for one in world.call("todo_lists", {})]
    assert counts == [("Empty", 0, 0), ("Home", 1, 0), ("Work", 2, 1)]


def test_items_come_by_due_day_and_those_without_one_last(world: World) -> None:
    assert _found(world, "items", list_id=1) == [3, 1, 2]
    assert _found(world, "items", list_id=3) == []
    assert _found(world, "search") == [3, 4, 1]
    assert _found(world, "search", page=2) == [2]


def test_conditions_must_all_hold(world: World) -> None:
    assert _found(world, "search", words="LETTER") == [3, 4, 2]
    assert _found(world, "search", words="note 3") == [3]
    assert _found(world, "search", words="letter", done=False) == [4, 2]
    assert _found(world, "search", due_until="2025-05-12") == [3, 4]
    assert _found(world, "search", due_since="2025-05-12", due_until="2025-05-20", priority="high") == [1]
    assert _found(world, "items", list_id=1, done=True) == [3]
    assert _found(world, "search", words="' OR 1 = 1 --") == []


def test_an_item_is_added_changed_moved_and_deleted(world: World) -> None:
    made = world.call("todo_add", {"list_id": 3, "title": "New"})["item_id"]
    got = world.call("todo_get", {"item_id": made})
    assert (got["list"], got["due"], got["priority"], got["done"]) == ("Empty", "", "normal", False)
    world.call("todo_update", {"item_id": 1, "due": "", "notes": ""})
    world.call("todo_move", {"item_id": 2, "list_id": 2})
    changes = {change.id: dict(change.columns) for change in world.changes()}
    assert changes[1] == {"due": "", "notes": ""}
    assert changes[2] == {"list_id": 2}
    world.call("todo_delete", {"item_id": made})
    assert {change.id for change in world.changes()} == {1, 2}


def test_done_and_open_again_is_as_before(world: World) -> None:
    world.call("todo_complete", {"item_id": 1})
    assert [dict(change.columns) for change in world.changes()] == [{"done": 1}]
    world.call("todo_reopen", {"item_id": 1})
    assert world.changes() == ()


def test_a_list_is_made_and_deleted(world: World) -> None:
    number = world.call("todo_create_list", {"name": "New"})["list_id"]
    world.call("todo_delete_list", {"list_id": number})
    assert world.changes() == ()
    assert world.call("todo_create_list", {"name": "New"})["list_id"] > number


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("items", {"list_id": 9}, "404 list 9 does not exist"),
        ("items", {"list_id": 1, "due_until": "soon"}, "422 due_until"),
        ("items", {"list_id": 1, "page": 2}, "422 page 2 does not exist"),
        ("get", {"item_id": 9}, "404"),
        ("create_list", {"name": "work"}, "409"),
        ("delete_list", {"list_id": 1}, "409 list 1 is not empty: it contains 3"),
        ("delete_list", {"list_id": 9}, "404"),
        ("add", {"list_id": 9, "title": "x"}, "404"),
        ("add", {"list_id": 1, "title": "x", "due": "2025-02-30"}, "422 due"),
        ("update", {"item_id": 1}, "422 specify"),
        ("update", {"item_id": 1, "due": "20 May"}, "422 due"),
        ("update", {"item_id": 9, "title": "x"}, "404"),
        ("complete", {"item_id": 3}, "409 item 3 is already completed"),
        ("reopen", {"item_id": 1}, "409 item 1 is not completed"),
        ("move", {"item_id": 1, "list_id": 1}, "409"),
        ("move", {"item_id": 1, "list_id": 9}, "404"),
        ("delete", {"item_id": 9}, "404"),
    ],
)
def test_what_is_refused_changes_nothing(world: World, name: str, arguments: dict[str, object], error: str) -> None:
    with pytest.raises(ToolError, match=error):
        world.call(f"todo_{name}", arguments)
    assert world.changes() == ()


@given(st.lists(st.text("abc ", min_size=1).filter(str.strip), min_size=1))
def test_lines_match_in_any_order_and_only_all_of_them(lines: list[str]) -> None:
    wanted = Lines(tuple(lines))
    assert wanted.matches("\n\n".join(reversed(lines)))
    assert wanted.matches("\r\n".join(lines).upper())
    assert not wanted.matches("\n".join((*lines, "one more")))
    assert not wanted.matches("\n".join(lines[1:]))


def test_at_least_is_a_whole_number() -> None:
    assert AtLeast(3).matches(3)
    assert AtLeast(3).matches(10)
    assert not any(AtLeast(1).matches(value) for value in (0, True, 1.5, "2", None))
