"""Repair environments: faults in bundled modules, or in a package of the user's choice."""

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
    """Find and repair the faults injected into a working module; hidden values decide.

    Args:
        tasks: a folder written by ``turnwise tasks build-repair``, whose own tests decide; omitted, the bundled
            modules.
        settings: further arguments of ``CodeEnv``.
    """

    family: TaskFamily[CodeTask] | None = REPAIR
    contract = replace(CodeEnv.contract, max_seconds=120.0)

    def __init__(self, *, tasks: str | Path | None = None, **settings: Any) -> None:
        self.chosen: TaskFamily[CodeTask] = REPAIR if tasks is None else _family(Path(tasks).resolve())
        super().__init__(**settings)

    def tasks(self) -> TaskFamily[CodeTask]:  # type: ignore[override]
        """The family of the chosen task set. It depends on the instance, so it is not an attribute of the class."""
        return self.chosen


@lru_cache(maxsize=8)
def _family(folder: Path) -> PackageRepairFamily:
    return PackageRepairFamily(folder)
