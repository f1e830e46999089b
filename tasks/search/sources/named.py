"""Which pages a source has, by what the person called it."""

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
"""Sources that are packages of the system."""


def pages_of(
    source: str, where: Path | None = None, bad: Callable[[str], None] | None = None
) -> tuple[str, Iterator[Document]]:
    """The name of a source, and its pages.

    Args:
        source: ``wordnet``, ``python-docs``, a folder of texts, or a file of JSONL.
        where: the folder of a system's package, if it is not where such packages are.
        bad: told of lines and files that are left out; without it, one that cannot be read is an error.

    Raises:
        UsageError: there is no such source.
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
