"""Queries and changes of a database, judged by rows."""

from __future__ import annotations

from ...tasks.code.sql.family import SQL
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeSqlEnv(CodeEnv):
    """The questions of ``SQL``: queries by their rows on two databases, changes by all rows of all tables."""

    family: TaskFamily[CodeTask] | None = SQL
    max_turns = 16
