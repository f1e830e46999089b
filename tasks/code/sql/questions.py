"""Questions about a database, read from ``questions.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).parent / "questions.toml"
TEMPLATES = ("find", "sum", "change", "rank", "move")
CHANGES = frozenset({"change", "move"})
"""Templates that ask for a change, and not for rows."""
ORDERED = frozenset({"rank"})
"""Templates for which the order of rows counts."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question; its texts have slots for the words of a theme and for random values.

    Args:
        words: words of the prompt.
        sql: SQL that solves it: one query, or statements.
        wrong: SQL that almost solves it; tasks are drawn so that its result differs.
    """

    words: str
    sql: str
    wrong: str


@lru_cache(maxsize=64)
def questions(template: str, level: int) -> tuple[Question, ...]:
    """Return the questions of a template and level."""
    return tuple(Question(**one) for one in _read()[template][str(level)])


@lru_cache(maxsize=1)
def _read() -> dict[str, dict[str, list[dict[str, str]]]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
