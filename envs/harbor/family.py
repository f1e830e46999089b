"""The tasks in a folder as a family."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from ...tasks.family import TaskFamily
from ...tasks.rng import Rng, stable_hash
from ...tasks.spec import TaskSpec
from .task import HarborTask, read_tasks


class HarborFamily(TaskFamily[HarborTask]):
    """All tasks of a folder, numbered by their seeds; every split has all of them, since the format has no splits.

    The name has a digest of the tasks, so that a run over others, or over edited ones, does not resume this one.

    Args:
        folder: folder of a task, or of tasks.
        skip: leave out tasks that cannot be played.

    Raises:
        TaskError: there is no task, or some cannot be played.
    """

    def __init__(self, folder: Path | str, skip: bool = False) -> None:
        self.folder, self.skip = Path(folder).resolve(), skip
        self.found = read_tasks(self.folder, skip=skip)
        content = stable_hash("harbor", *(task.digest for task in self.found)).hex()[:12]
        self.name, self.seeds = f"harbor:{self.folder.name}:{content}", len(self.found)

    def build(self, spec: TaskSpec, rng: Rng) -> HarborTask:
        return self.found[spec.seed]

    def __reduce__(self) -> Any:
        return (family_of, (self.folder, self.skip))


@lru_cache(maxsize=16)
def family_of(folder: Path, skip: bool) -> HarborFamily:
    """Return the family of a folder, which is read once per process."""
    return HarborFamily(folder, skip)
