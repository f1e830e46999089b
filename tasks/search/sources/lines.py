"""JSONL as pages, with Turnwise's columns or those of Search-R1's corpora."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from ....errors import TaskError, UsageError
from ..document import Document

LONGEST = 64 * 1024 * 1024
"""Most bytes of a line."""


def read_lines(path: Path, bad: Callable[[str], None] | None = None) -> Iterator[Document]:
    """Yield a page for each line of a file, ``{"id", "title", "text"}`` or ``{"id", "contents"}``.

    Args:
        path: path that ends in ``.jsonl``, or in ``.jsonl.gz`` for a gzip file.
        bad: callback that receives a message for each line that is not a page, which is then skipped; omitted, the
            first such line is an error.

    Raises:
        TaskError: a line is not a page.
        UsageError: the file cannot be read.
    """
    try:
        with _opened(path) as file:
            for number, line in enumerate(_bounded(file), 1):
                if not line.strip():
                    continue
                try:
                    page = replace(read_page(_json(line)), origin=f"{path}:{number}")
                except TaskError as error:
                    message = f"{path}:{number}: {error}"
                    if bad is None:
                        raise TaskError(message) from error
                    bad(message)
                else:
                    yield page
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def read_page(columns: Any) -> Document:
    """Return the page in a line's columns.

    Raises:
        TaskError: a column is missing, or is not text.
    """
    if not isinstance(columns, dict):
        raise TaskError(f"a page must be an object, not {type(columns).__name__}")
    id = columns.get("id")
    if isinstance(id, bool) or not isinstance(id, str | int) or id == "":
        raise TaskError(f"a page needs an 'id', a string or an integer; this has {id!r:.60}")
    if "contents" in columns:
        title, text = from_contents(_text(columns, "contents"))
        return Document(str(id), columns["title"] if isinstance(columns.get("title"), str) else title, text)
    if "text" not in columns:
        raise TaskError(
            f"a page needs 'text' (or Search-R1's 'contents'); this has {', '.join(map(str, columns))!r:.80}"
        )
    return Document(str(id), _text(columns, "title", ""), _text(columns, "text"))


def from_contents(contents: str) -> tuple[str, str]:
    """Split Search-R1's ``contents``, whose first line is the title in quotation marks, into title and text."""
    title, _, text = contents.partition("\n")
    title = title.strip()
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    return title, text


def to_contents(page: Document) -> str:
    """Return a page as Search-R1's ``contents``; ``from_contents`` parses it if the title is one line."""
    return f'"{" ".join(page.title.splitlines())}"\n{page.text}'


def _text(columns: dict[str, Any], name: str, otherwise: str | None = None) -> str:
    found = columns.get(name, otherwise)
    if not isinstance(found, str):
        raise TaskError(f"{name!r} must be a string, not {found!r:.60}")
    return found


def _json(line: bytes) -> Any:
    if len(line) > LONGEST:
        raise TaskError(f"the line has more than {LONGEST} bytes")
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise TaskError(f"this is not valid JSON: {error}") from None


def _bounded(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines; cut a line that exceeds the limit."""
    while line := file.readline(LONGEST + 1):
        yield line
        while len(line) > LONGEST and not line.endswith(b"\n"):
            line = file.readline(LONGEST + 1)
            if not line:
                return


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]  # it yields lines of bytes like any binary file
    return path.open("rb")
