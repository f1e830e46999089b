"""A folder of text and Markdown as pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ....errors import TaskError, UsageError
from ..document import Document

TEXTS = (".txt", ".md", ".markdown", ".rst", ".text")


def read_folder(folder: Path, bad: Callable[[str], None] | None = None) -> Iterator[Document]:
    """Each text file below a folder, by its path; hidden ones, links to folders and links out of it are left out.

    The title is the first heading of Markdown, or the first line where a line of ``=`` stands under it, or else the
    file's name.

    Args:
        folder: the folder.
        bad: told of a file that is no text in UTF-8, which is then left out; without it, the first such is an error.

    Raises:
        TaskError: a file is no text in UTF-8.
        UsageError: there is no such folder, or no text in it.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    empty = True
    for path in _files(folder):
        empty = False
        try:
            text = _text(path)
        except TaskError as error:
            if bad is None:
                raise
            bad(str(error))
            continue
        title, rest = titled(text, path.stem.replace("_", " ").replace("-", " "))
        yield Document(path.relative_to(folder).as_posix(), title, rest, str(path))
    if empty:
        raise UsageError(f"{folder} has no file that ends in {', '.join(TEXTS)}")


def titled(text: str, otherwise: str) -> tuple[str, str]:
    """The title of a text, and what follows it."""
    lines = text.strip().splitlines()
    if lines and lines[0].startswith("#") and lines[0].lstrip("#").strip():
        return lines[0].lstrip("#").strip(" #"), "\n".join(lines[1:]).strip()
    if len(lines) > 1 and lines[0].strip() and len(lines[1].strip()) > 2 and set(lines[1].strip()) <= {"="}:
        return lines[0].strip(), "\n".join(lines[2:]).strip()
    return otherwise, text.strip()


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text: byte {error.start} is {content[error.start]:#04x}") from None
    if "\x00" in text:
        raise TaskError(f"{path} is not a text file: it has NUL bytes")
    return text


def _files(folder: Path) -> Iterator[Path]:
    inside = folder.resolve()
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(here) / name
            if path.suffix.lower() not in TEXTS or name.startswith(".") or not path.is_file():
                continue
            if not path.is_symlink() or path.resolve().is_relative_to(inside):
                yield path
