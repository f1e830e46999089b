"""SQL tasks: a database, and either a query to write or a required final state.

A query is judged by its rows on the agent's database and on another one with the same tables, so that memorized rows
are worth nothing. The order of rows counts if the task says so. A change is judged by all rows of all tables. Rows are
read inside a fresh sandbox, and compared outside of it by value and type. ``test_template`` holds out ordered answers
and moves between tables, ``test_entity`` a theme.

Every question comes with a condition on a table (``conditions``) that changes its result. Test splits use combinations
of conditions and questions that training never does. In ``turnwise/CodeSQL-v0`` there were no conditions, and copying
words and numbers into a known query solved 22 of 24 tasks of ``dev``, ``test_iid`` and ``test_entity``.

A level determines the size of the database and of the question. Means over 40 training tasks:

| level | rows | words of SQL | SELECTs and JOINs |
|------:|-----:|-------------:|------------------:|
|     1 |   20 |         21.5 |               2.2 |
|     2 |   31 |         24.6 |               2.1 |
|     3 |   46 |         27.5 |               2.8 |
|     4 |   66 |         27.7 |               2.8 |
|     5 |   94 |         40.0 |               3.8 |
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ....errors import TaskError
from ...family import TaskFamily
from ...rng import Rng
from ...spec import Split, TaskSpec
from ..databases import READERS, database, readers
from ..readers import bag
from ..task import Attempt, Case, CodeTask, ValueCheck, case, text_files
from .conditions import conditions
from .questions import CHANGES, ORDERED, TEMPLATES, questions
from .world import CITIES, KINDS, SIZES, THEMES, Theme, script

Rows = list[tuple[Any, ...]]
HELD = ("rank", "move")
TRIES = 500
QUERY, OTHER, TOOL = "query.sql", "turnwise_other.db", "sql.py"
MODULE = READERS.removesuffix(".py")
HELPER = '''"""python3 sql.py DATABASE STATEMENTS: run them, print the rows of each, keep the changes."""

import sqlite3
import sys

with sqlite3.connect(sys.argv[1]) as connection:
    for statement in sys.argv[2].split(";"):
        for row in connection.execute(statement):
            print(*row, sep=" | ")
connection.close()
'''
"""A tool in the workspace, since there may be no ``sqlite3`` command."""


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A question with everything filled in, and its two databases.

    Args:
        theme: theme of the databases.
        words: words of the prompt.
        sql: SQL that solves it.
        wrong: SQL that almost solves it, by name.
        here: script that creates the agent's database.
        elsewhere: script that creates the other one.
    """

    theme: Theme
    words: str
    sql: str
    wrong: Mapping[str, str]
    here: str
    elsewhere: str


class SqlFamily(TaskFamily[CodeTask]):
    """Questions about databases."""

    name = "code-sql"
    levels = tuple(SIZES)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        held = split in (Split.TEST_TEMPLATE, Split.CHALLENGE)
        return tuple(name for name in TEMPLATES if (name in HELD) == held)

    def build(self, spec: TaskSpec, rng: Rng) -> CodeTask:
        other = spec.split in (Split.TEST_ENTITY, Split.CHALLENGE)
        theme = THEMES["clinic"] if other else THEMES[rng.pick(("shop", "library"))]
        for number in range(TRIES):
            asked = _asked(spec, theme, rng.child("try", number))
            made = _change(asked) if spec.template in CHANGES else _query(asked, ordered=spec.template in ORDERED)
            if made is not None:
                return made
        raise TaskError(f"none of {TRIES} databases is fit for {spec}; take another seed")


SQL = SqlFamily()


def _asked(spec: TaskSpec, theme: Theme, rng: Rng) -> TaskDraft:
    question, change = rng.pick(questions(spec.template, spec.level)), spec.template in CHANGES
    condition = rng.pick(conditions(question.sql, change, spec.split))
    restricted = condition.on_change if change else condition.on_query
    city, other = rng.sample(CITIES, 2)
    drawn = {"city": city, "other": other, "kind": rng.pick(KINDS), "n": rng.randint(20, 80), "m": rng.randint(2, 8)}
    drawn |= {"d": rng.randint(5, 26), "t": rng.randint(4, 24) * 50}
    wrong = {"almost right": restricted(question.wrong), "without the condition": question.sql}
    texts = {"words": condition.asked(question.words, change), "sql": restricted(question.sql), **wrong}
    filled = {name: text.format(**theme.words, **drawn) for name, text in texts.items()}
    here, elsewhere = (script(theme, spec.level, rng.child(where)) for where in ("here", "elsewhere"))
    wrong = {name: filled[name] for name in wrong}
    return TaskDraft(theme, filled["words"], filled["sql"], wrong, here, elsewhere)


def rows(made: str, query: str) -> Rows:
    """Return the rows of a query on the database that a script creates. Both must be Turnwise's own, not submitted."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(made)
        return [tuple(row) for row in connection.execute(query)]


def tables(made: str, statements: str = "") -> dict[str, Rows]:
    """Return all tables of the database after some statements. They must be Turnwise's own, not submitted."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"{made}\n{statements};")
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master ORDER BY name")]
        return {name: bag([tuple(row) for row in connection.execute(f'SELECT * FROM "{name}"')]) for name in names}


def _query(asked: TaskDraft, *, ordered: bool) -> CodeTask | None:
    """Return the task to write a query; ``None`` if a wrong query gives the same rows on both databases."""
    found = []
    for made in (asked.here, asked.elsewhere):
        right, wrong = rows(made, asked.sql), [rows(made, query) for query in asked.wrong.values()]
        if not right or (right in wrong if ordered else bag(right) in map(bag, wrong)):
            return None
        found.append(right)
    if bag(found[0]) == bag(found[1]):
        return None
    heart = "VALUES " + ", ".join(f"({', '.join(_literal(cell) for cell in row)})" for row in found[0])
    checks = [
        ValueCheck(name, (_rows_case(file, right, ordered),), MODULE)
        for name, file, right in (("here", asked.theme.file, found[0]), ("elsewhere", OTHER, found[1]))
    ]
    cheats = {**asked.wrong, "the rows by heart": heart, "any query": "SELECT 1"}
    order = "Its rows must come in this order" if ordered else "Its rows may come in any order"
    return CodeTask(
        prompt=_prompt(
            asked,
            f"Write one query to {QUERY} that returns {asked.words}. {order}. It is also tested on another database "
            "with the same tables.",
        ),
        files=text_files({TOOL: HELPER}),
        databases={asked.theme.file: asked.here},
        checks=tuple(checks),
        solution=Attempt(text_files({QUERY: f"{asked.sql}\n"})),
        taken=(QUERY,),
        hidden={
            READERS: readers(),
            asked.theme.file: database(asked.here),
            OTHER: database(asked.elsewhere),
        },
        weights={"here": 1.0, "elsewhere": 2.0},
        cheats={name: Attempt(text_files({QUERY: query})) for name, query in cheats.items()},
        ask="Answer with the query and nothing else.",
    )


def _rows_case(file: str, right: Rows, ordered: bool) -> Case:
    read = f"rows_of_file({file!r}, {QUERY!r})"
    return case(read, right) if ordered else case(f"bag({read})", bag(right))


def _change(asked: TaskDraft) -> CodeTask | None:
    """Return the task to change the database; ``None`` if nothing changes, or if wrong statements do the same."""
    before, after, *wrong = (tables(asked.here, each) for each in ("", asked.sql, *asked.wrong.values()))
    if after in (before, *wrong) or not all(after[name] for name in after if name != "archive"):
        return None
    file = asked.theme.file
    checks = [ValueCheck("tables", (case(f"sorted(tables({file!r}))", sorted(after)),), MODULE)]
    for name, kept in after.items():
        checks.append(ValueCheck(name, (case(f"bag(rows({file!r}, 'SELECT * FROM {name}'))", kept),), MODULE))
    changed = [name for name in after if after[name] != before[name]]

    def done(statements: str) -> Attempt:
        return Attempt(commands=(f"python3 {TOOL} {file} {shlex.quote(statements)}",))

    return CodeTask(
        prompt=_prompt(asked, f"Change the database {file} itself: {asked.words}. Nothing else in it may change."),
        files=text_files({TOOL: HELPER}),
        databases={file: asked.here},
        checks=tuple(checks),
        solution=done(asked.sql),
        taken=(file,),
        hidden={READERS: readers()},
        weights={check.name: float(check.name in changed) for check in checks},
        cheats={
            **{name: done(statements) for name, statements in asked.wrong.items()},
            "one row too many": done(f"{asked.sql}; INSERT INTO {asked.theme.who} VALUES (99, 'Zed', 'Arlen')"),
            "a table too many": done(f"{asked.sql}; CREATE TABLE notes (text TEXT)"),
            "a column too many": done(f"{asked.sql}; ALTER TABLE {asked.theme.link} ADD COLUMN note TEXT"),
            "deletes the database": Attempt(commands=(f"rm {file}",)),
        },
        perform=f"python3 {TOOL} {file} {{answer}}",
        ask="Answer with the statements and nothing else.",
        answer=asked.sql,
    )


def _literal(cell: object) -> str:
    return "NULL" if cell is None else f"'{cell}'" if isinstance(cell, str) else str(cell)


def _prompt(asked: TaskDraft, order: str) -> str:
    theme = asked.theme
    return (
        f"{theme.file} is an SQLite database with the tables {theme.who} (id, name, city), "
        f"{theme.what} (id, title, kind, price), {theme.link} (id, {theme.who_one}, {theme.what_one}, amount, day; the "
        f"second and third are ids) and archive (same columns as {theme.link}). {order} You can try statements with: "
        f"python3 {TOOL} {theme.file} 'SELECT 1'."
    )
