"""Formats of file names, paths and contents."""

from __future__ import annotations

import re
from typing import Any

from .....errors import ToolError
from ....rows.database import Row

TEXTS = ("txt", "md", "csv")
"""Types of files that calls can read and write."""
THERE = "files.id NOT IN (SELECT file_id FROM trash)"
"""SQL condition for files that are not in the trash."""
NAME = re.compile(r"[^/\\\s][^/\\\n\r]{0,90}\.(txt|md|csv|pdf|jpg)")


def ending(name: str) -> str:
    """Return the type of a file name."""
    return name.rpartition(".")[2]


def text(content: str) -> dict[str, Any]:
    """Return the columns of a file with a text."""
    return {"content": content, "size": len(content.encode())}


def with_line(content: str, line: str) -> str:
    """Return a text with another line at its end."""
    return f"{content}\n{line}" if content else line


def text_only(name: str) -> None:
    """Check that calls can read and write a file with this name.

    Raises:
        ToolError: the file is not a text file.
    """
    if ending(name) not in TEXTS:
        raise ToolError(f"415 {name!r} is not a text file: only {', '.join(TEXTS)} files are")


def head(row: Row) -> dict[str, Any]:
    """Return a file in the form of listings."""
    names = {"file_id": "id", "folder": "folder", "name": "name", "size": "size", "changed_at": "updated_at"}
    return {shown: row[column] for shown, column in names.items()}
