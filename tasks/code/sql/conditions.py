"""Conditions: which rows of a table count, in words and in SQL.

They are combined with questions, so that a memorized list of questions does not cover all requests. Test splits use
combinations that training never does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...rng import unit_hash
from ...spec import Split

CONDITIONS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "what": (
            ("that cost more than the average of all {what}", "price > (SELECT AVG(price) FROM main.{what})"),
            ("that cost less than the most expensive of all {what}", "price < (SELECT MAX(price) FROM main.{what})"),
            ("whose prices are odd numbers", "price % 2 = 1"),
            ("that appear in at least one of the {link}", "id IN (SELECT {what_one} FROM main.{link})"),
            ("whose titles come before G in the alphabet", "title < 'G'"),
            ("whose ids are even numbers", "id % 2 = 0"),
            (
                "that share a kind with other {what}",
                "kind IN (SELECT kind FROM main.{what} GROUP BY kind HAVING COUNT(*) > 1)",
            ),
        ),
        "who": (
            (
                "who share a city with other {who}",
                "city IN (SELECT city FROM main.{who} GROUP BY city HAVING COUNT(*) > 1)",
            ),
            ("who have at least one {link_one}", "id IN (SELECT {who_one} FROM main.{link})"),
            ("whose names come before M in the alphabet", "name < 'M'"),
            ("whose names have three characters", "LENGTH(name) = 3"),
            ("whose ids are even numbers", "id % 2 = 0"),
            ("whose ids are divisible by three", "id % 3 = 0"),
            (
                "who have more than one of the {link}",
                "id IN (SELECT {who_one} FROM main.{link} GROUP BY {who_one} HAVING COUNT(*) > 1)",
            ),
        ),
        "link": (
            ("with more than the average amount of all {link}", "amount > (SELECT AVG(amount) FROM main.{link})"),
            ("before the last day of all {link}", "day < (SELECT MAX(day) FROM main.{link})"),
            ("with odd amounts", "amount % 2 = 1"),
            ("on days with even numbers", "day % 2 = 0"),
            ("whose ids are even numbers", "id % 2 = 0"),
            ("whose ids are divisible by three", "id % 3 = 0"),
            (
                "of {what} that cost more than the average of all {what}",
                "{what_one} IN (SELECT id FROM main.{what} WHERE price > (SELECT AVG(price) FROM main.{what}))",
            ),
        ),
    }
)
"""Conditions by table: words that follow its name, and an SQL expression for one of its rows."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the rows of a table.

    Args:
        table: key of the table in ``Theme.words``: ``who``, ``what`` or ``link``.
        words: words that follow the table's name; like all texts here, they have slots for the words of a theme.
        sql: SQL expression for one row.
    """

    table: str
    words: str
    sql: str

    def asked(self, words: str, change: bool) -> str:
        """Return the words of a question with this condition."""
        verb = "change" if change else "count"
        return f"{words}; of the {{{self.table}}}, {verb} only those {self.words}"

    def on_query(self, query: str) -> str:
        """Return a query in which the table's name means the rows that count."""
        return f"WITH {{{self.table}}} AS (SELECT * FROM main.{{{self.table}}} WHERE {self.sql}) {query}"

    def on_change(self, statements: str) -> str:
        """Return statements whose changes of the table are restricted to the rows that count."""
        return "; ".join(self._restricted(each) for each in statements.split("; "))

    def _restricted(self, statement: str) -> str:
        if self.table not in targets(statement):
            return statement
        word = "AND" if " WHERE " in statement else "WHERE"
        return f"{statement} {word} id IN (SELECT id FROM main.{{{self.table}}} WHERE {self.sql})"


def targets(statements: str) -> set[str]:
    """Return the tables whose rows some statements change or move."""
    return set(re.findall(r"(?:UPDATE|DELETE FROM|INSERT INTO archive SELECT \* FROM) \{(\w+)\}", statements))


def conditions(sql: str, change: bool, split: Split) -> tuple[Condition, ...]:
    """Return the conditions that a split combines with a question: half of them in training, others in other splits.

    Args:
        sql: SQL of the question, with slots.
        change: whether it changes the database.
        split: the split.
    """
    named = targets(sql) if change else {table for table in CONDITIONS if f"{{{table}}}" in sql}
    every = [Condition(table, *each) for table in sorted(named) for each in CONDITIONS[table]]
    order = sorted(every, key=lambda one: unit_hash("code-sql", sql, one.table, one.sql))
    half, more = -(-len(order) // 2), max(1, len(order) // 5)
    return tuple({Split.TRAIN: order[:half], Split.DEV: order[half : half + more]}.get(split, order[half + more :]))
