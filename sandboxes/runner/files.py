"""Files of a sandbox, as the runner names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...errors import SandboxError
from ..result import FileInfo
from .archives import Entry
from .frames import fields_of, number_in
from .results import words

KINDS = {b"f": "file", b"d": "directory", b"l": "link", b"o": "other"}


def entries_of(contents: Mapping[str, bytes], *, executable: bool) -> Iterator[Entry]:
    """Yield the entries that create these files."""
    for path, content in contents.items():
        yield b"f", words([path])[0], 0o755 if executable else 0o644, content


def listed(answer: bytes) -> tuple[FileInfo, ...]:
    """Return a directory from the runner's listing, sorted by path.

    Raises:
        SandboxError: the answer is not a listing.
    """
    fields = fields_of(answer)
    if len(fields) % 4 or any(kind not in KINDS for kind in fields[1::4]):
        raise SandboxError("a file list of the runner is truncated")
    found = [
        FileInfo(path.decode("utf-8", "surrogateescape"), KINDS[kind], number_in(size), number_in(mode))
        for path, kind, size, mode in zip(fields[::4], fields[1::4], fields[2::4], fields[3::4], strict=True)
    ]
    return tuple(sorted(found, key=lambda info: info.path))
