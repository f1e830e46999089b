"""The families of code tasks: pure, distinct, held out, and solvable on paper. Nothing is run in a sandbox here."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from turnwise.errors import TaskError
from turnwise.tasks.code import canonical
from turnwise.tasks.code.shell.family import HELD, SHELL
from turnwise.tasks.code.sql import family as sql
from turnwise.tasks.code.sql.questions import CHANGES
from turnwise.tasks.code.synthesis import family as synthesis
from turnwise.tasks.code.task import Attempt, CodeTask, ValueCheck, case
from turnwise.tasks.family import TaskFamily
from turnwise.tasks.spec import Split

FAMILIES: list[TaskFamily[CodeTask]] = [synthesis.SYNTHESIS, SHELL, sql.SQL]
HELD_OUT = {"code-synthesis": synthesis.HELD_SHAPES, "code-shell": HELD, "code-sql": sql.HELD}


def tasks(family: TaskFamily[CodeTask], n: int = 3, **part: Any) -> list[CodeTask]:
    return [family.generate(spec) for spec in family.sample(n, **part)]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_task_is_a_pure_function_of_its_spec(family: TaskFamily[CodeTask]) -> None:
    for spec in family.sample(5):
        one, other = family.generate(spec), family.generate(spec)
        assert one == other
        assert repr(pickle.loads(pickle.dumps(one))) == repr(one)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_tasks_are_distinct(family: TaskFamily[CodeTask]) -> None:
    found = tasks(family, 40, level=3)
    assert len({task.prompt + repr(task.files) + repr(task.databases) for task in found}) == 40


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_split_and_level_has_tasks_and_templates_are_held_out(family: TaskFamily[CodeTask]) -> None:
    for split in family.splits:
        held = split in (Split.TEST_TEMPLATE, Split.CHALLENGE)
        assert set(family.templates(split)) & set(HELD_OUT[family.name]) == (
            set(HELD_OUT[family.name]) if held else set()
        )
        for level in family.levels:
            (task,) = tasks(family, 1, split=split, level=level)
            assert task.checks
            assert task.cheats


@pytest.mark.slow
def test_no_program_is_in_training_and_in_a_test() -> None:
    def steps(split: Split) -> set[str]:
        found = tasks(synthesis.SYNTHESIS, 120, split=split, level=1)
        return {task.answer for task in found}

    assert not steps(Split.TRAIN) & steps(Split.TEST_IID)


def test_the_reference_of_a_program_is_worth_what_is_expected_and_no_step_can_be_left_out() -> None:
    for task in tasks(synthesis.SYNTHESIS, 15):
        checks = [check for check in task.checks if isinstance(check, ValueCheck)]
        for name, attempt in {"": task.solution, "leaves a step out": task.cheats["leaves a step out"]}.items():
            names: dict[str, Any] = {}
            exec(attempt.files[synthesis.MODULE].decode(), names)
            right = [worth(one.source, names) == one.expected for check in checks for one in check.cases]
            assert all(right) == (not name), task.prompt


def worth(source: str, names: dict[str, Any]) -> str:
    try:
        return canonical.encode(synthesis.evaluated(source, names))
    except canonical.Unplain:
        return "unplain"
    except Exception as error:
        return canonical.encode_error(error)


def test_a_plain_answer_of_the_easiest_level_is_a_few_words() -> None:
    for task in tasks(synthesis.SYNTHESIS, 30, level=1):
        assert task.hole.replace("{answer}", task.answer).encode() == task.solution.files[synthesis.MODULE]
        assert len(task.answer) < 40
        assert len(task.guesses) == 16


@pytest.mark.slow
def test_queries_answer_differently_on_the_database_that_is_not_shown() -> None:
    for spec in sql.SQL.sample(20):
        task = sql.SQL.generate(spec)
        if spec.template not in CHANGES:
            here, elsewhere = task.checks
            assert isinstance(here, ValueCheck)
            assert isinstance(elsewhere, ValueCheck)
            assert here.cases[0].expected != elsewhere.cases[0].expected


def test_what_cannot_be_graded_is_refused() -> None:
    with pytest.raises(TaskError, match="not plain data"):
        case("f(1)", object())
    with pytest.raises(TaskError, match="without checks"):
        CodeTask("", {}, (), Attempt())
    check = ValueCheck("a", (case("1", 1),))
    with pytest.raises(TaskError, match="one name"):
        CodeTask("", {}, (check, check), Attempt())
    with pytest.raises(TaskError, match="names no check: 'b'"):
        CodeTask("", {}, (check,), Attempt(), weights={"b": 1.0})
