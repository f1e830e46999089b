"""Measure, without a model, what partial credit on code can tell a learner: which wrong programs earn something.

For programs of ``turnwise/CodeSynthesis-v1``, three kinds of wrong answers are graded: the solution without one of its
steps, a table of the visible examples, and a constant. Beside them, the guesses of level 1, from which demonstrators
draw. Credit by check is ``partial = true`` (the weights of the hidden checks that pass), and credit by case
``partial = "cases"`` (each check counts by the share of its cases). A useful credit ranks a missing step above both
shortcuts. For guesses, the table has the probability that ``--group`` attempts earn the same, so that no
group-relative learner learns from them.

The programs are Turnwise's own, so they run in this process and need no sandbox. Intervals are 95 % Student intervals
over tasks.

Run: python benchmarks/partial_credit.py [--tasks 100] [--levels 1 2 3 4 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from kept import shown
from rich.console import Console
from rich.table import Table

from turnwise.evals.statistics import Estimate, student
from turnwise.tasks.code import canonical
from turnwise.tasks.code.synthesis.family import MODULE, SYNTHESIS, evaluated
from turnwise.tasks.code.task import Attempt, CodeTask, ValueCheck

KINDS = {"a step is missing": "leaves a step out", "the examples by heart": "says the examples by heart"}
"""Wrong answers that a task brings along, and their names there."""
CONSTANT = "a constant"


@dataclass(frozen=True)
class Credit:
    """Earnings of one program.

    Args:
        solved: 1 for success, else 0.
        by_check: weights of the checks that pass.
        by_case: weights of the checks, each times the share of its cases that hold.
    """

    solved: float
    by_check: float
    by_case: float


@dataclass(frozen=True)
class Row:
    """Earnings of a kind of answer at a level: means over tasks with their intervals; see ``Credit``."""

    level: int
    answer: str
    solved: Estimate
    by_check: Estimate
    by_case: Estimate


def credit(task: CodeTask, source: str) -> Credit:
    """Grade the source of a module, which must be Turnwise's own, by all hidden checks of its task."""
    names: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        exec(compile(source, MODULE, "exec"), names)
    shares = {check.name: _share(check, names) for check in task.checks if isinstance(check, ValueCheck)}
    passed = {name: float(share == 1) for name, share in shares.items()}
    return Credit(float(all(passed.values())), _weighted(task, passed), _weighted(task, shares))


def best_constant(task: CodeTask) -> Credit:
    """Return the credit by case of the constant that earns most, as a learner may find it."""
    checks = [check for check in task.checks if isinstance(check, ValueCheck)]

    def earned(value: str) -> Credit:
        shares = {check.name: fmean(case.expected == value for case in check.cases) for check in checks}
        passed = {name: float(share == 1) for name, share in shares.items()}
        return Credit(float(all(passed.values())), _weighted(task, passed), _weighted(task, shares))

    values = {case.expected for check in checks for case in check.cases}
    return max((earned(value) for value in sorted(values)), key=lambda one: one.by_case)


def _share(check: ValueCheck, names: Mapping[str, Any]) -> float:
    return fmean(_value(case.source, names) == canonical.shortened(case.expected) for case in check.cases)


def _value(source: str, names: Mapping[str, Any]) -> str:
    try:
        return canonical.shortened(canonical.encode(evaluated(source, dict(names))))
    except Exception as error:
        return canonical.shortened(canonical.encode_error(error))


def _weighted(task: CodeTask, shares: Mapping[str, float]) -> float:
    return sum(task.credit[name] * share for name, share in shares.items())


def answers(task: CodeTask) -> Iterator[tuple[str, str]]:
    """Yield the kind and the source of each wrong answer."""
    for kind, name in KINDS.items():
        yield kind, _source(task.cheats[name])
    head = task.files[MODULE].decode().splitlines()[0]
    if head.startswith("def "):
        yield CONSTANT, f"{head}\n    return 0\n"


def _source(attempt: Attempt) -> str:
    return attempt.files[MODULE].decode()


def equal_group(values: Sequence[float], size: int) -> float:
    """Return the probability that ``size`` attempts earn the same, if each is one of ``values`` at random."""
    counts = Counter(round(value, 9) for value in values)
    return sum((count / len(values)) ** size for count in counts.values())


def measured(level: int, number: int, group: int) -> list[Row]:
    """Return what each kind of answer earns at a level: means over the answers of a task, then over tasks."""
    found: dict[str, list[Sequence[float]]] = {}
    for seed in range(number):
        task = SYNTHESIS.generate(SYNTHESIS.spec(seed, split="train", level=level))
        for kind, source in answers(task):
            found.setdefault(kind, []).append(astuple(credit(task, source)))
        found.setdefault("the best constant", []).append(astuple(best_constant(task)))
        if task.guesses:
            columns = _columns(astuple(credit(task, task.hole.replace("{answer}", one))) for one in task.guesses)
            found.setdefault("a guess", []).append([fmean(column) for column in columns])
            equal = [equal_group(column, group) for column in columns]
            found.setdefault(f"{group} guesses earn the same", []).append(equal)
    return [Row(level, kind, *map(student, _columns(tasks))) for kind, tasks in found.items()]


def _columns(rows: Iterable[Sequence[float]]) -> list[tuple[float, ...]]:
    return list(zip(*rows, strict=True))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--tasks", type=int, default=100, help="tasks per level")
    words.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    words.add_argument("--group", type=int, default=8, help="attempts of a group")
    words.add_argument("--json", type=Path, help="also write the numbers to this file")
    said = words.parse_args()
    rows = [row for level in said.levels for row in measured(level, said.tasks, said.group)]
    table = Table("level", "answer", "solved", "credit by check", "credit by case")
    for row in rows:
        table.add_row(str(row.level), row.answer, *map(shown, (row.solved, row.by_check, row.by_case)))
    Console(width=130).print(table)
    if said.json:
        said.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
