"""SQLite databases created by a task, and the readers that grade them inside a sandbox."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=256)
def database(script: str) -> bytes:
    """Return the file of a database that an SQL script creates; the script is a task's own, never an agent's."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


READERS = "turnwise_readers.py"
"""Hidden file of tasks whose checks read databases or archives."""


@lru_cache(maxsize=1)
def readers() -> bytes:
    """Return the content of that file."""
    return (Path(__file__).parent / "readers.py").read_bytes()
