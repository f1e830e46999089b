"""The number of different code tasks: by question and grading, not by their seeds."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise.envs.builtin import IDS
from turnwise.envs.registry import find
from turnwise.tasks.code.task import CodeTask
from turnwise.tasks.family import TaskFamily
from turnwise.tasks.rng import stable_hash

SEEDS = 160
"""For each split and level; more seeds make more tasks."""


def content(task: CodeTask) -> bytes:
    """Return everything that makes two tasks different: question, files, and grading."""
    files = [[path, data.hex()] for path, data in sorted(task.files.items())]
    return stable_hash(task.prompt, files, repr(task.checks), repr(sorted(task.databases.items())))


def families() -> dict[str, TaskFamily[Any]]:
    """The families of the code environments that come with Turnwise."""
    import importlib

    found = {}
    for id, entry, _, _ in IDS:
        if ".envs.code." in entry:
            module, _, name = entry.partition(":")
            found[id] = getattr(importlib.import_module(module), name).family
    return found


@pytest.mark.slow
def test_repair_alone_has_thousands() -> None:
    family = families()["turnwise/CodeRepair-v3"]
    few = [content(family.generate(spec)) for spec in family.sample(200)]
    assert len(set(few)) >= 195


@pytest.mark.shift
@pytest.mark.timeout(900)
def test_there_are_ten_thousand_different_tasks() -> None:
    """Over all kinds, splits and levels, without running any."""
    counts = {}
    for id, family in families().items():
        assert find(id).source == "turnwise"
        counts[id] = len(
            {
                content(family.generate(spec))
                for split in family.splits
                for level in family.levels
                for spec in family.sample(SEEDS, split=split, level=level)
            }
        )
    assert sum(counts.values()) >= 10_000, counts
    print(counts)
