"""SQLite databases made by a task, and the readers with which they are graded inside a sandbox."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=256)
def database(script: str) -> bytes:
    """The file of a database that a script of SQL makes; the script is a task's own, never an agent's."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


READERS = "turnwise_readers.py"
"""The hidden file of tasks whose checks read databases or archives."""


@lru_cache(maxsize=1)
def readers() -> bytes:
    """The content of that file."""
    return (Path(__file__).parent / "readers.py").read_bytes()
