"""SQL tasks: each condition counts, and tests combine it with questions as training never does."""

from __future__ import annotations

import pytest

from turnwise.tasks.code.sql.conditions import CONDITIONS, Condition, conditions, targets
from turnwise.tasks.code.sql.family import SQL, rows
from turnwise.tasks.code.sql.questions import CHANGES, TEMPLATES, questions
from turnwise.tasks.spec import Split

MADE = "CREATE TABLE books (id INTEGER, price INTEGER); INSERT INTO books VALUES (1, 10), (2, 11), (3, 13);"
ODD = Condition("what", "whose prices are odd numbers", "price % 2 = 1")


def test_a_query_sees_only_the_rows_that_count() -> None:
    query = ODD.on_query("SELECT COUNT(*), (SELECT MIN(price) FROM {what}) FROM {what}").format(what="books")
    assert rows(MADE, query) == [(2, 11)]


def test_statements_change_only_the_rows_that_count() -> None:
    moved = "INSERT INTO archive SELECT * FROM {what} WHERE price > 10; DELETE FROM {what} WHERE price > 10"
    assert ODD.on_change(moved).count(ODD.sql) == 2
    assert ODD.on_change("UPDATE {what} SET price = 0").endswith(
        "WHERE id IN (SELECT id FROM main.{what} WHERE price % 2 = 1)"
    )
    assert ODD.on_change("DELETE FROM {link} WHERE amount < 3") == "DELETE FROM {link} WHERE amount < 3"
    assert targets("UPDATE {who} SET city = 'a'; DELETE FROM {link} WHERE id IN (SELECT id FROM {what})") == {
        "who",
        "link",
    }


@pytest.mark.parametrize("template", TEMPLATES)
def test_questions_and_conditions_are_paired_in_tests_as_never_in_training(template: str) -> None:
    change = template in CHANGES
    for level in SQL.levels:
        for question in questions(template, level):
            parts = [set(conditions(question.sql, change, split)) for split in (Split.TRAIN, Split.DEV, Split.TEST_IID)]
            assert all(parts)
            assert sum(map(len, parts)) == len(parts[0] | parts[1] | parts[2]) >= min(map(len, CONDITIONS.values()))


@pytest.mark.slow
def test_a_prompt_names_its_condition() -> None:
    for spec in SQL.sample(20):
        task = SQL.generate(spec)
        assert "only those" in task.prompt
        assert "without the condition" in task.cheats
