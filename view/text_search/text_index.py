"""An index of a store's texts: each part is decoded once, and every later search only compares bytes.

Without a file to keep, the index is in a temporary file without a name, which ends with the viewer. With one, it
lies beside the parts as ``_texts.index``, and later viewers use it. The file is a line of text (``MAGIC``), then for
each part a line of JSON (name, size and time of the part, ends of its episodes) and the joined texts themselves (see
``part_texts``). A part that was written again since gets a new entry, and the old one is ignored.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import weakref
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...rollouts.locks import take
from .part_texts import PartTexts

MAGIC = b"turnwise.texts/1\n"
LARGEST = 8 * 2**30
"""Bytes at which an index stops growing; texts of further parts are decoded for every search."""
LONGEST_LINE = 2**24
Key = tuple[str, int, int]
"""Name, size and time of the last change of a part."""


@dataclass(frozen=True, slots=True)
class _Entry:
    start: int
    ends: Sequence[int]


def key_of(file: Path) -> Key:
    """Return the key of a part as it is now.

    Raises:
        OSError: The part does not exist any more.
    """
    found = file.stat()
    return file.name, found.st_size, found.st_mtime_ns


class TextIndex:
    """The joined texts of a store's parts, in a file.

    Args:
        kept: file to keep, beside the store; ``None`` for a temporary one. If it cannot be written, is not an index, or
            another viewer writes it, a temporary one is used.
    """

    def __init__(self, kept: Path | None = None) -> None:
        self._entries: dict[Key, _Entry] = {}
        found = _opened(kept) if kept is not None else None
        self.kept = found is not None
        """Whether the index lies beside the store."""
        self._descriptor = found if found is not None else _temporary()
        weakref.finalize(self, os.close, self._descriptor)
        self.size = self._read() if self.kept else 0
        """Size of the index in bytes."""

    def has(self, key: Key, episodes: int) -> bool:
        """Return whether a part with so many episodes is indexed."""
        return key in self._entries and len(self._entries[key].ends) == episodes

    def texts(self, key: Key) -> PartTexts:
        """Return the texts of an indexed part."""
        entry = self._entries[key]
        return PartTexts(_read_at(self._descriptor, entry.ends[-1] if entry.ends else 0, entry.start), entry.ends)

    def add(self, key: Key, texts: PartTexts) -> None:
        """Append the texts of a part; a full disk or an index that is too large keeps no more."""
        name, size, changed = key
        about = {"part": name, "size": size, "changed": changed, "ends": list(texts.ends)}
        line = json.dumps(about, separators=(",", ":")).encode() + b"\n"
        if self.size + len(line) + len(texts.data) > LARGEST or len(line) > LONGEST_LINE:
            return
        try:
            _write_at(self._descriptor, line + texts.data, self.size)
        except OSError:
            return
        self._entries[key] = _Entry(self.size + len(line), array("q", texts.ends))
        self.size += len(line) + len(texts.data)

    def _read(self) -> int:
        """Read the entries of a kept file; return the end of the last whole one, where the next one is written."""
        size, at = os.fstat(self._descriptor).st_size, len(MAGIC)
        while at < size:
            head = _line_at(self._descriptor, at)
            entry = _entry(head, at, size)
            if head is None or entry is None:  # torn by a kill
                break
            self._entries[entry[0]] = entry[1]
            at = entry[1].start + (entry[1].ends[-1] if entry[1].ends else 0)
        return at


def _entry(head: bytes | None, at: int, size: int) -> tuple[Key, _Entry] | None:
    """Return the key and the place of an entry, or ``None`` if its line or its texts are not whole."""
    try:
        about: dict[str, Any] = json.loads(head or b"")
        ends = array("q", about["ends"])
        key = str(about["part"]), int(about["size"]), int(about["changed"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    start = at + len(head or b"")
    rises = all(low <= high for low, high in zip([0, *ends], ends, strict=False))
    return (key, _Entry(start, ends)) if rises and start + (ends[-1] if ends else 0) <= size else None


def _opened(file: Path) -> int | None:
    """Open an index for this process alone; ``None`` if that is not possible."""
    try:
        # A store from elsewhere may hold a link to any file, or a pipe, under this name.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(file, flags, 0o666)
    except OSError:
        return None
    with suppress(OSError):
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        if regular and take(descriptor):
            if os.fstat(descriptor).st_size == 0:
                _write_at(descriptor, MAGIC, 0)
            if _read_at(descriptor, len(MAGIC), 0) == MAGIC:
                return descriptor
    os.close(descriptor)
    return None


def _temporary() -> int:
    """Open a file without a name; not in memory, where the system has a folder for large temporary files."""
    named = os.environ.get("TMPDIR", "")
    folder = named if os.path.isdir(named) else "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.dup(file.fileno())


def _line_at(descriptor: int, at: int) -> bytes | None:
    """Return the line that begins at a place, with its end; ``None`` if it has none."""
    for length in (2**12, LONGEST_LINE):
        found = os.pread(descriptor, length, at)
        if (end := found.find(b"\n")) >= 0:
            return found[: end + 1]
    return None


def _read_at(descriptor: int, length: int, at: int) -> bytes:
    """Read so many bytes; fewer at the end of the file."""
    found = os.pread(descriptor, length, at)
    while len(found) < length and (more := os.pread(descriptor, length - len(found), at + len(found))):
        found += more
    return found


def _write_at(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
