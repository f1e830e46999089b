"""``StoredCorpus``: a corpus in one SQLite file, with the full-text index that finds its pages."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import local
from urllib.parse import quote

from ...errors import InfrastructureError, UsageError
from .document import Corpus, Document

TOKENS = "porter unicode61 remove_diacritics 2"
"""SQLite's tokenizer: Unicode words without accents and English endings."""
FORMAT = "turnwise corpus 1"
"""Format name in the file."""
MAPPED = 2**40
"""Size of the memory map, shared by all threads; larger than any file, so that all of it is mapped."""
SCHEMA = f"""
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (place INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL);
CREATE UNIQUE INDEX by_id ON documents (id);
CREATE VIRTUAL TABLE found USING fts5(title, text, content='documents', content_rowid='place', tokenize='{TOKENS}');
"""


class StoredCorpus(Corpus):
    """The pages of a file that ``build`` wrote, read on demand; safe to use from several threads.

    The file must not change. Another file may take its name, as ``build`` does it; reading from this one then fails
    with an error.

    Args:
        path: path of the file.

    Raises:
        UsageError: the file does not exist, or is not a corpus.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._held = local()
        if not self.path.is_file():
            raise UsageError(f"there is no corpus {self.path}; build one with turnwise tasks build-corpus")
        self._file = _which(self.path)
        try:
            about = dict(self.connection.execute("SELECT key, value FROM about"))
        except sqlite3.DatabaseError as error:
            raise UsageError(
                f"{self.path} is not a corpus: {error}; build one with turnwise tasks build-corpus"
            ) from error
        if about.get("format") != FORMAT:
            raise UsageError(f"{self.path} has the format {about.get('format')!r}; this version reads {FORMAT!r}")
        self.name = about["name"]
        self._documents = int(about["documents"])

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's read-only connection.

        Raises:
            InfrastructureError: the file has gone or was replaced; threads would search different files.
        """
        if not hasattr(self._held, "connection"):
            self._check()
            address = f"file:{quote(str(self.path.resolve()))}?mode=ro&immutable=1"
            made = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            made.execute(f"PRAGMA mmap_size={MAPPED}")
            self._check()  # check again, in case the opened file was a replacement
            self._held.connection = made
        return self._held.connection  # type: ignore[no-any-return]

    def _check(self) -> None:
        if _which(self.path) != self._file:
            raise InfrastructureError(f"{self.path} was replaced or removed while its pages were in use; start again")

    def __len__(self) -> int:
        return self._documents

    def __iter__(self) -> Iterator[Document]:
        for row in self.connection.execute("SELECT id, title, text FROM documents ORDER BY place"):
            yield Document(*row)

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``."""
        return self._one("id", storable(id))

    def at(self, place: int) -> Document:
        """Return the page at an index of the order, from 0."""
        found = self._one("place", place)
        if found is None:
            raise IndexError(place)
        return found

    def _one(self, column: str, value: str | int) -> Document | None:
        row = self.connection.execute(f"SELECT id, title, text FROM documents WHERE {column} = ?", (value,)).fetchone()
        return None if row is None else Document(*row)


def _which(path: Path) -> tuple[int, ...]:
    try:
        facts = os.stat(path)
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def storable(text: str) -> str:
    """Return a text that a file can store: a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
