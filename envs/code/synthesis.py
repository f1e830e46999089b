"""Write a function or a small class from a description."""

from __future__ import annotations

from ...tasks.code.synthesis.family import SYNTHESIS
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeSynthesisEnv(CodeEnv):
    """Write functions and classes, which are judged by their values on hidden inputs."""

    family: TaskFamily[CodeTask] | None = SYNTHESIS
    max_turns = 12
