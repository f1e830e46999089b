"""Jobs on files, judged by the final files."""

from __future__ import annotations

from ...tasks.code.shell.family import SHELL
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeShellEnv(CodeEnv):
    """Change files of a folder by shell commands: every file counts, including those that must stay unchanged."""

    family: TaskFamily[CodeTask] | None = SHELL
    max_turns = 16
