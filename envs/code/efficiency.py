"""Efficiency as an environment: the same values with less counted work."""

from __future__ import annotations

from ...tasks.code.efficiency.family import EFFICIENCY
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeEfficiencyEnv(CodeEnv):
    """Speed up correct but slow functions; their work is counted and not timed."""

    family: TaskFamily[CodeTask] | None = EFFICIENCY
