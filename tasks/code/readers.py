"""Reads what agents leave, inside a grading sandbox, as plain data. Stand-alone: stdlib, Python 3.8 or newer."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from typing import Any

MOST = 100_000
"""Rows or bytes beyond which nothing is read."""


class TooMuch(Exception):
    """More than is read."""


def rows(path: str, query: str) -> list[tuple[Any, ...]]:
    """The rows that a query has on a database, in its order."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        found = connection.execute(query).fetchmany(MOST)
    return [tuple(row) for row in found]


def rows_of_file(path: str, query_path: str) -> list[tuple[Any, ...]]:
    """The rows of the query that stands in a file; it may be one statement, and may change nothing."""
    with open(query_path, encoding="utf-8") as file:
        return rows(path, file.read(MOST))


def bag(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same rows in an order that does not depend on the one that they came in."""
    return sorted(found, key=repr)


def tables(path: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every table of a database with all of its rows, in an order of their own."""
    names = [name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return {name: bag(rows(path, f'SELECT * FROM "{name}"')) for name in names}


def members(path: str) -> dict[str, bytes]:
    """The files in a tar archive, by name."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile():
                if member.size > MOST:
                    raise TooMuch(member.name)
                reader = archive.extractfile(member)
                found[member.name[2:] if member.name.startswith("./") else member.name] = (
                    reader.read() if reader else b""
                )
    return found
