"""Do something with files, judged by what the files are then."""

from __future__ import annotations

from ...tasks.code.shell.family import SHELL
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeShellEnv(CodeEnv):
    """The folders of ``SHELL``: every file is judged, also those that should have been left alone."""

    family: TaskFamily[CodeTask] | None = SHELL
    max_turns = 16
