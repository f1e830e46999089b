"""What is asked of a database: ``questions.toml``, read."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).parent / "questions.toml"
TEMPLATES = ("find", "sum", "change", "rank", "move")
CHANGES = frozenset({"change", "move"})
"""Templates that ask for another state, and not for an answer."""
ORDERED = frozenset({"rank"})
"""Templates in whose answers the order of rows counts."""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to ask; its texts have places for the words of a theme and for what a task draws.

    Args:
        words: of the prompt.
        sql: what does it: one query, or statements.
        wrong: what almost does it; tasks are drawn so that it comes out differently.
    """

    words: str
    sql: str
    wrong: str


@lru_cache(maxsize=64)
def questions(template: str, level: int) -> tuple[Question, ...]:
    """The questions of a template and level."""
    return tuple(Question(**one) for one in _read()[template][str(level)])


@lru_cache(maxsize=1)
def _read() -> dict[str, dict[str, list[dict[str, str]]]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
