"""Repair as an environment: bundled modules, or a task set built of somebody's package."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...tasks.code.repair.family import REPAIR
from ...tasks.code.repair.packages import PackageRepairFamily
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeRepairEnv(CodeEnv):
    """A module that worked until somebody changed it: find the faults and repair them, judged by hidden values.

    Args:
        tasks: a folder that ``turnwise tasks build-repair`` wrote, whose own tests judge; omitted, bundled modules.
        settings: as of ``CodeEnv``.
    """

    family: TaskFamily[CodeTask] | None = REPAIR
    contract = replace(CodeEnv.contract, max_seconds=120.0)

    def __init__(self, *, tasks: str | Path | None = None, **settings: Any) -> None:
        self.chosen: TaskFamily[CodeTask] = REPAIR if tasks is None else _family(Path(tasks).resolve())
        super().__init__(**settings)

    def tasks(self) -> TaskFamily[CodeTask]:  # type: ignore[override]
        """The family of the task set that was named, so that it is the instance that knows it and not the class."""
        return self.chosen


@lru_cache(maxsize=8)
def _family(folder: Path) -> PackageRepairFamily:
    return PackageRepairFamily(folder)
