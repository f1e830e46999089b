"""``build``: write pages and their full-text index into one file."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from ...errors import TaskError, UsageError
from .document import Document
from .stored import FORMAT, SCHEMA, StoredCorpus, storable

AT_ONCE = 1000
"""Pages to write and report together."""
MERGED = 500
"""Pages of SQLite's index to merge at a time; the merge can be interrupted between them."""
CACHE = 64_000
"""KiB of memory for SQLite's cache during the build."""
Row = tuple[int, str, str, str]
"""Index, id, title and text of a page."""


def build(
    path: Path | str,
    name: str,
    documents: Iterable[Document],
    on_progress: Callable[[int], None] = lambda pages: None,
    bad: Callable[[str], None] | None = None,
) -> StoredCorpus:
    """Write pages into a file, which appears only when it is complete.

    Memory is bounded, whatever the number of pages. The corpus' name includes a digest of its pages, so that different
    corpora have different names.

    Args:
        path: path of the file; an existing corpus is replaced, any other file is not.
        name: name of the corpus.
        documents: the pages.
        on_progress: callback that receives the number of pages written so far.
        bad: callback that receives a message for each page whose id is taken, which is then skipped; omitted, the first
            such page is an error.

    Raises:
        TaskError: two pages have the same id.
        UsageError: the file cannot be written, exists and is not a corpus, or there are no pages.
    """
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{target} is a folder; name a file, such as {target / (name + '.corpus')}")
    _replaceable(target)
    made = _begun(target)
    try:
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            _write(connection, name, documents, on_progress, bad)
        _kept(Path(made), target)
    except sqlite3.Error as error:
        raise UsageError(f"cannot write {target}: {error}") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(made)
    return StoredCorpus(target)


def _replaceable(target: Path) -> None:
    if not os.path.lexists(target):
        return
    try:
        StoredCorpus(target).connection.close()
    except UsageError:
        raise UsageError(
            f"{target} exists and is not a corpus, so it is not replaced: name another file, or remove it"
        ) from None


def _begun(target: Path) -> str:
    """Create an empty temporary file next to the target."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    os.close(handle)
    return made


def _write(
    connection: sqlite3.Connection,
    name: str,
    documents: Iterable[Document],
    on_progress: Callable[[int], None],
    bad: Callable[[str], None] | None,
) -> None:
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", f"cache_size = -{CACHE}"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(SCHEMA)
    digest, place = hashlib.sha256(), 0
    for some in _batches(documents):
        rows = _insert(connection, place, some, bad)
        for row in rows:
            digest.update(repr(row[1:]).encode())
        place += len(rows)
        on_progress(place)
    if not place:
        raise UsageError(f"there are no pages for the corpus {name!r}: the source is empty")
    _in_order(connection)
    about = {"format": FORMAT, "name": f"{name}@{digest.hexdigest()[:16]}", "documents": str(place)}
    connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())


def _insert(
    connection: sqlite3.Connection, start: int, some: list[Document], bad: Callable[[str], None] | None
) -> list[Row]:
    """Write some pages, starting at an index, and return the rows written."""
    rows = _rows(start, some)
    connection.execute("BEGIN")
    if _stored(connection, rows) < len(rows):
        held = "SELECT place FROM documents WHERE place >= ?"
        places = {place for (place,) in connection.execute(held, (start,))}
        for number, one in enumerate(some, start):
            if number not in places:
                _twice(one, bad)
        connection.execute("DELETE FROM documents WHERE place >= ?", (start,))
        rows = _rows(start, [one for number, one in enumerate(some, start) if number in places])
        _stored(connection, rows)
    found = [(place, title, text) for place, _, title, text in rows]
    connection.executemany("INSERT INTO found (rowid, title, text) VALUES (?, ?, ?)", found)
    connection.execute("COMMIT")
    return rows


def _rows(start: int, some: Iterable[Document]) -> list[Row]:
    return [(place, storable(one.id), storable(one.title), storable(one.text)) for place, one in enumerate(some, start)]


def _stored(connection: sqlite3.Connection, rows: list[Row]) -> int:
    """Insert rows and return the number inserted; rows with a taken id are skipped."""
    return connection.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?)", rows).rowcount


def _twice(one: Document, bad: Callable[[str], None] | None) -> None:
    message = one.error_message(f"another page before this one has the id {one.id!r:.200}; ids must be unique")
    if bad is None:
        raise TaskError(message)
    bad(message)


def _in_order(connection: sqlite3.Connection) -> None:
    """Merge the index into one segment, which is the fastest to search."""
    connection.execute("INSERT INTO found (found, rank) VALUES ('merge', ?)", (-MERGED,))
    while True:
        before = connection.total_changes
        connection.execute("INSERT INTO found (found, rank) VALUES ('merge', ?)", (MERGED,))
        if connection.total_changes - before < 2:  # SQLite's documented sign that nothing was left to merge
            return


def _kept(made: Path, target: Path) -> None:
    try:
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.chmod(0o644)
        made.replace(target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    rest = iter(documents)
    while some := list(islice(rest, AT_ONCE)):
        yield some
