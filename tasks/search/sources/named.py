"""The sources of pages, by the name that the user gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ....errors import UsageError
from ..document import Document
from .folder import read_folder
from .lines import read_lines
from .python_docs import read_python_docs
from .wordnet import read_wordnet

SYSTEM: dict[str, Callable[[Path | None], Iterator[Document]]] = {
    "wordnet": read_wordnet,
    "python-docs": read_python_docs,
}
"""Sources that are system packages."""


def pages_of(
    source: str, where: Path | None = None, bad: Callable[[str], None] | None = None
) -> tuple[str, Iterator[Document]]:
    """Return the name of a source, and its pages.

    Args:
        source: ``wordnet``, ``python-docs``, a folder of texts, or a JSONL file.
        where: folder of a system package, if it is not in its usual place.
        bad: callback that receives a message for each skipped line or file; omitted, an unreadable one is an error.

    Raises:
        UsageError: the source is unknown.
    """
    if source in SYSTEM:
        return source, SYSTEM[source](where)
    if where is not None:
        raise UsageError(f"--from is for {' and '.join(SYSTEM)}, but {source} is already a path")
    path = Path(source)
    if path.is_dir():
        return path.resolve().name, read_folder(path, bad)
    if path.is_file() and path.name.endswith((".jsonl", ".jsonl.gz")):
        return path.name.split(".")[0], read_lines(path, bad)
    if path.is_file():
        raise UsageError(f"{source} is neither a folder nor JSONL: name a file that ends in .jsonl or .jsonl.gz")
    raise UsageError(f"there is no source {source}: name a folder, a JSONL file, {' or '.join(SYSTEM)}")
