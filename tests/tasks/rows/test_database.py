"""A database's own record of its changes equals a full comparison of its tables."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import ToolError
from turnwise.tasks.rows.database import Database, Row

SCHEMA = """
    CREATE TABLE one (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b INTEGER, c REAL);
    CREATE TABLE two (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT UNIQUE, b, c);
"""
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["'; DROP TABLE one; --", 'a "quoted" \\ text', "\x00", "0", 0.1, 1e-300, 2**53 + 1]),
)
WRITES = st.tuples(
    st.sampled_from(["insert", "insert again", "update", "update back", "delete", "fork", "fail", "fail inside"]),
    st.sampled_from(["one", "two"]),
    st.integers(1, 8),
    st.sampled_from(["a", "b", "c"]),
    VALUES,
)


def started() -> Database:
    db = Database()
    db.make(SCHEMA)
    for table in ("one", "two"):
        for number in range(4):
            db.insert(table, a=f"{table} {number}", b=number, c=number / 7)
    db.forget()
    return db


def everything(db: Database) -> dict[tuple[str, int], Row]:
    return {(table, row["id"]): row for table in ("one", "two") for row in db.rows(f"SELECT * FROM {table}")}


def compared(before: dict[tuple[str, int], Row], db: Database) -> set[tuple[str, int, str]]:
    """Return a full comparison, in a comparable form that tells 0 from 0.0."""
    after = everything(db)
    keys = sorted(before.keys() | after.keys())
    return {(*key, repr((before.get(key), after.get(key)))) for key in keys if before.get(key) != after.get(key)}


def tracked(db: Database) -> set[tuple[str, int, str]]:
    return {(one.table, one.id, repr((one.before, one.after))) for one in db.changes()}


def written(db: Database, before: dict[tuple[str, int], Row], write: tuple[str, str, int, str, Any]) -> Database:
    """Do one thing to a database; return the one to continue with."""
    kind, table, id, column, value = write
    with suppress(Exception), db.whole():  # a name that is taken is refused, and changes nothing
        if kind == "insert":
            db.insert(table, **{column: value})
        elif kind == "insert again":
            db.insert(table, id=id, **{column: value})
        elif kind == "update":
            db.update(table, id, **{column: value})
        elif kind == "update back" and (table, id) in before:
            db.update(table, id, **before[table, id])
        elif kind == "delete":
            db.delete(table, id)
        elif kind == "fail":
            db.update(table, id, **{column: value})
            db.delete(table, id)
            raise ToolError("422 no")
        elif kind == "fail inside":
            with suppress(ToolError), db.whole():
                db.insert(table, b=1)
                db.delete(table, id)
                raise ToolError("422 no")
            db.update(table, id, b=7)
    return copy.deepcopy(db) if kind == "fork" else db


@given(st.lists(st.tuples(WRITES, st.booleans()), max_size=14))
def test_latest_changes_are_those_since_it_was_asked(writes: list[tuple[tuple[str, str, int, str, Any], bool]]) -> None:
    db = started()
    before = since = everything(db)
    for write, asked in writes:
        db = written(db, before, write)
        if asked:
            latest = {(one.table, one.id, repr((one.before, one.after))) for one in db.latest()}
            assert latest == compared(since, db), write
            since = everything(db)


@given(st.lists(WRITES, max_size=14))
def test_what_is_tracked_is_what_a_comparison_finds(writes: list[tuple[str, str, int, str, Any]]) -> None:
    db = started()
    before = everything(db)
    for write in writes:
        db = written(db, before, write)
        assert tracked(db) == compared(before, db), write
    assert [(one.table, one.id) for one in db.changes()] == sorted((one.table, one.id) for one in db.changes())


@pytest.mark.slow
@given(st.lists(WRITES, max_size=6), st.lists(WRITES, max_size=6))
def test_a_fork_goes_its_own_way(
    first: list[tuple[str, str, int, str, Any]], second: list[tuple[str, str, int, str, Any]]
) -> None:
    db = started()
    before = everything(db)
    for write in first:
        db = written(db, before, write)
    fork, so_far, rows = db.fork(), tracked(db), everything(db)
    assert tracked(fork) == so_far
    for write in second:
        fork = written(fork, before, write)
    assert tracked(db) == so_far, "what is done to a fork is not done to the original"
    assert everything(db) == rows
    assert tracked(fork) == compared(before, fork)


def test_what_is_undone_is_no_change() -> None:
    db = started()
    row = db.row("SELECT * FROM one WHERE id = 1")
    assert row is not None
    db.update("one", 1, a="other", b=99)
    db.delete("one", 1)
    assert [str(one) for one in db.changes()] == ["one 1: delete"]
    db.insert("one", **row)
    assert db.changes() == ()
    db.delete("one", db.insert("one", a="new"))
    assert db.changes() == ()


def test_a_row_that_is_gone_and_comes_back_otherwise_is_an_update() -> None:
    db = started()
    db.delete("one", 2)
    db.insert("one", id=2, a="one 1", b=1, c=5.0)
    (only,) = db.changes()
    assert (only.kind, only.columns) == ("update", {"c": 5.0})


def test_to_touch_what_is_not_there_changes_nothing() -> None:
    db = started()
    db.update("one", 99, a="x")
    db.delete("two", 99)
    assert db.changes() == ()


def test_a_failure_in_the_midst_leaves_nothing() -> None:
    db = started()
    db.update("one", 1, b=50)

    def fail() -> None:
        with db.whole():
            db.update("one", 1, b=60)
            db.update("one", 2, b=60)
            db.insert("two", a="new")
            raise ToolError("422 no")

    with pytest.raises(ToolError):
        fail()
    assert [str(one) for one in db.changes()] == ["one 1: update of b"]
    assert db.value("SELECT b FROM one WHERE id = 1") == 50


def test_a_fork_in_the_midst_knows_what_was_done() -> None:
    db = started()
    with db.whole():
        db.update("one", 1, b=50)
        fork = db.fork()
        db.update("one", 1, b=0)
    assert db.changes() == ()
    assert [str(one) for one in fork.changes()] == ["one 1: update of b"]
