"""A folder of text and Markdown as pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ....errors import TaskError, UsageError
from ..document import Document

TEXTS = (".txt", ".md", ".markdown", ".rst", ".text")


def read_folder(folder: Path, bad: Callable[[str], None] | None = None) -> Iterator[Document]:
    """Yield a page for each text file below a folder, with its path as the id.

    Hidden files, links to folders and links out of the folder are skipped. The title is the first heading of Markdown,
    or the first line if a line of ``=`` follows it, or else the file's name.

    Args:
        folder: the folder.
        bad: callback that receives a message for each file that is not UTF-8 text, which is then skipped; omitted, the
            first such file is an error.

    Raises:
        TaskError: a file is not UTF-8 text.
        UsageError: the folder does not exist, or contains no text file.
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
    """Return the title of a text, and the rest of it."""
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
