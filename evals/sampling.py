"""Choose the tasks of an evaluation: a pure function of the family and the settings, spread evenly over its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..tasks.family import TaskFamily
from ..tasks.rng import stable_hash
from ..tasks.spec import Split, TaskSpec

DRY = 200
"""Number of consecutive seeds without a new instance after which a split counts as exhausted."""
SEED_STRIDE = 1_000_000
"""Evaluations with different seeds use task seeds that differ by at least this much."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The tasks of an evaluation.

    Args:
        tasks: tasks in playing order; parts take turns, so that any prefix is balanced too.
        notes: remarks that a reader needs, e.g. that a family has fewer tasks than requested.
    """

    tasks: tuple[TaskSpec, ...]
    notes: tuple[str, ...] = ()


def sample_tasks(
    family: TaskFamily[Any], n: int, *, splits: Sequence[Split] = (), levels: Sequence[int] = (), seed: int = 0
) -> Sample:
    """Sample ``n`` different tasks, evenly over splits and levels; a larger ``n`` starts with the same tasks.

    Args:
        family: the family of the tasks.
        n: number of tasks; a family with fewer returns all that it has, and a note.
        splits: splits to use; those that the family lacks are skipped with a note (default: ``default_splits``).
        levels: levels to use (default: the family's usual ones, mostly all).
        seed: seed that selects the tasks, as far as the family has different ones.

    Raises:
        UsageError: ``n`` is not positive, or the family lacks a level or all of the splits.
    """
    if n < 1:
        raise UsageError(f"n must be at least 1; got {n}")
    chosen = tuple(split for split in splits if split in family.splits) or tuple(splits) or default_splits(family)
    _known("split", chosen, family.splits, family.name)
    missing = [str(split) for split in splits if split not in chosen]
    notes = (f"family {family.name!r} has no {', '.join(missing)}: skipped",) if missing else ()
    _known("level", levels, family.levels, family.name)
    cells = [_cell(family, split, level, seed) for level in tuple(levels) or family.usual for split in chosen]
    tasks: list[TaskSpec] = []
    while cells and len(tasks) < n:
        for cell in list(cells):
            task = next(cell, None)
            if task is None:
                cells.remove(cell)
            elif len(tasks) < n:
                tasks.append(task)
    if len(tasks) == n:
        return Sample(tuple(tasks), notes)
    there = f"{len(tasks)} in {', '.join(chosen)}"
    return Sample(tuple(tasks), (*notes, f"{n} tasks were asked for; there are only {there}"))


def default_splits(family: TaskFamily[Any]) -> tuple[Split, ...]:
    """Return the test splits of a family, or all of its splits if it has no test split."""
    tests = tuple(s for s in family.splits if s in (Split.TEST_IID, Split.TEST_TEMPLATE, Split.TEST_ENTITY))
    return tests or tuple(family.splits)


def _cell(family: TaskFamily[Any], split: Split, level: int, seed: int) -> Iterator[TaskSpec]:
    """Yield the tasks of one split and level, each once: if two seeds name the same instance, the first.

    A split with few instances (a short list of words, say) ends when ``DRY`` seeds in a row brought nothing new.
    Played again, they would be counted as if they were independent.
    """
    seen: set[bytes] = set()
    number = dry = 0
    while (family.seeds is None or number < family.seeds) and dry < DRY:
        spec = family.spec(seed * SEED_STRIDE + number, split=split, level=level)
        instance = stable_hash(repr(family.generate(spec)))
        number, dry = number + 1, dry + 1
        if instance not in seen:
            seen.add(instance)
            dry = 0
            yield spec


def _known(what: str, asked: Iterable[Any], there: Sequence[Any], family: str) -> None:
    for item in asked:
        if item not in there:
            known = ", ".join(map(str, there))
            raise UsageError(f"family {family!r} has no {what} {item!s}; choose from {known}", option=what)
