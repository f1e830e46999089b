"""Numbered tasks of a served environment, for the task routes of OpenEnv and of the Open Reward Standard.

Task ``n`` of a split has the seed ``n``, and the usual levels take turns.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import Any

from ...envs.remote.description import RemoteFamily
from ...errors import RequestError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.spec import Split, TaskSpec
from .catalog import Served

MOST = 10_000
"""Number of tasks that a split without end lists, and that one answer may hold."""
BLOCK = 500
"""Number of tasks that are drawn at once."""
KEPT = 1000
"""Number of blocks that a server keeps: some hundred bytes per task."""


def family_of(served: Served) -> TaskFamily[Any]:
    """Return the family of an environment's tasks, as its description has it."""
    described = served.description["family"]
    return SeededFamily(described["name"]) if described["seeded"] else RemoteFamily(described, lambda _: "")


def splits_of(served: Served) -> list[dict[str, str]]:
    """Return each split's name, and its type among ``train``, ``validation`` and ``test``."""
    return [{"name": str(split), "type": _type(split)} for split in family_of(served).splits]


def number_of(served: Served, split: str) -> int:
    """Return the number of tasks that a split lists.

    Raises:
        RequestError: there is no such split.
    """
    return _number(_with(served, split))


def task_at(served: Served, split: str, index: int) -> TaskSpec:
    """Return a task by its number; negative ones count from the end.

    Raises:
        RequestError: there is no such split or task.
    """
    family = _with(served, split)
    number = _number(family)
    if not -number <= index < number:
        raise RequestError(
            f"there is no task {index!r:.40} in split {split}; it has tasks 0 to {number - 1}", code="task"
        )
    return _numbered(family, split, index % number)


class TaskLists:
    """Lists of tasks as JSON, kept once drawn: ten thousand take seconds.

    They are drawn in a thread, one block at a time, so that the event loop goes on and no request waits for more than
    a block of another one. The blocks used last are kept.
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[str, str, int], list[bytes]] = OrderedDict()
        self._drawing = asyncio.Lock()

    async def between(
        self, served: Served, split: str, start: int | None = None, stop: int | None = None
    ) -> list[bytes]:
        """Return the tasks of a range as JSON, with Python's rules for slices.

        Raises:
            RequestError: there is no such split, or the range has too many tasks for one answer.
        """
        family = _with(served, split)
        number = _number(family)
        numbers = range(number)[start:stop]
        if len(numbers) > MOST:
            raise RequestError(
                f"one answer holds at most {MOST} tasks, and these are {len(numbers)}; ask for parts by task_range",
                code="task",
            )
        found: list[bytes] = []
        if not numbers:
            return found
        for at in range(numbers[0] // BLOCK, numbers[-1] // BLOCK + 1):
            first = at * BLOCK
            block = await self._block((served.id, split, at), family, range(first, min(first + BLOCK, number)))
            found += block[max(0, numbers.start - first) : numbers.stop - first]
        return found

    async def _block(self, key: tuple[str, str, int], family: TaskFamily[Any], numbers: range) -> list[bytes]:
        if key not in self._blocks:
            async with self._drawing:
                if key not in self._blocks:
                    self._blocks[key] = await asyncio.to_thread(_drawn, family, key[1], numbers)
                    if len(self._blocks) > KEPT:
                        self._blocks.popitem(last=False)
                return self._blocks[key]
        self._blocks.move_to_end(key)
        return self._blocks[key]


def _drawn(family: TaskFamily[Any], split: str, numbers: range) -> list[bytes]:
    return [json.dumps(_numbered(family, split, each).to_json()).encode() for each in numbers]


def _with(served: Served, split: str) -> TaskFamily[Any]:
    family = family_of(served)
    if split not in family.splits:
        raise RequestError(f"there is no split {split!r:.60}; {served.id} has {', '.join(family.splits)}", code="task")
    return family


def _number(family: TaskFamily[Any]) -> int:
    return MOST if family.seeds is None else family.seeds


def _numbered(family: TaskFamily[Any], split: str, number: int) -> TaskSpec:
    return family.spec(number, split=split, level=family.usual[number % len(family.usual)])


def _type(split: Split) -> str:
    if split is Split.TRAIN:
        return "train"
    return "validation" if split is Split.DEV else "test"
