"""Queries and changes of a database, judged by rows."""

from __future__ import annotations

from ...tasks.code.sql.family import SQL
from ...tasks.code.task import CodeTask
from ...tasks.family import TaskFamily
from .env import CodeEnv


class CodeSqlEnv(CodeEnv):
    """Query and change databases in SQL: queries are judged by rows of two databases, changes by all rows."""

    family: TaskFamily[CodeTask] | None = SQL
    max_turns = 16
