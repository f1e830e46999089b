"""Efficiency as an environment: the same values with less counted work."""

from __future__ import annotations

from ...tasks.code.efficiency.family import EFFICIENCY
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeEfficiencyEnv(CodeEnv):
    """Functions that are right and slow: cut the work that they take, which is counted and not timed."""

    family: TaskFamily[CodeTask] | None = EFFICIENCY
