"""Snapshots between a sandbox and the host: entries become a canonical tar, and a tar becomes requests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator

from ...errors import SandboxError, ToolError
from ..snapshot import Snapshot
from .frames import PIECE, fields_of, number_in

Entry = tuple[bytes, bytes, int, bytes]
"""Kind, path, mode and content."""
KINDS = {b"f": tarfile.REGTYPE, b"d": tarfile.DIRTYPE, b"l": tarfile.SYMTYPE}
ROOM = 2048
"""Average bytes of an entry beside its content, at most; deep folders have long paths."""


def entries_of_answer(answer: bytes) -> list[Entry]:
    """Return the entries of a working directory that the runner sent, sorted by path.

    Raises:
        SandboxError: the answer has another format.
    """
    fields = fields_of(answer)
    if len(fields) % 4 or len(set(fields[::4])) * 4 != len(fields):
        raise SandboxError("the entries of a snapshot are truncated")
    entries = list[Entry]()
    for path, kind, mode, content in sorted(zip(fields[::4], fields[1::4], fields[2::4], fields[3::4], strict=True)):
        safe_name(path)
        if kind not in KINDS:
            raise SandboxError(f"a snapshot has an entry of unknown kind {kind[:20]!r}")
        entries.append((kind, path, number_in(mode) & 0o777, content))
    return entries


def archived(entries: Iterable[Entry]) -> Snapshot:
    """Return a canonical archive of entries that are sorted by path."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
        for kind, path, mode, content in entries:
            info = tarfile.TarInfo(path.decode("utf-8", "surrogateescape"))
            info.type, info.mode = KINDS[kind], mode
            if kind == b"l":
                info.linkname, info.mode = content.decode("utf-8", "surrogateescape"), 0o777
            info.size = len(content) if kind == b"f" else 0
            archive.addfile(info, io.BytesIO(content))
    return Snapshot(held.getvalue())


def safe_name(path: bytes) -> str:
    """Return a relative path that stays below its folder.

    Raises:
        SandboxError: the path does not.
    """
    if path.startswith(b"/") or b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/")):
        raise SandboxError(f"a snapshot has an entry with the invalid name {path[:80]!r}")
    return path.decode("utf-8", "surrogateescape")


def unpacked(snapshot: Snapshot) -> list[Entry]:
    """Return the entries of an archive from any source.

    Raises:
        ToolError: it is not an archive, has other entries than files, directories and symbolic links, or leads out.
    """
    entries = list[Entry]()
    try:
        with tarfile.open(fileobj=io.BytesIO(snapshot.archive), mode="r:", errors="surrogateescape") as archive:
            for info in archive:
                path = info.name.encode("utf-8", "surrogateescape")
                safe_name(path)
                if info.isdir():
                    entries.append((b"d", path, info.mode & 0o777, b""))
                elif info.issym():
                    entries.append((b"l", path, 0o777, info.linkname.encode("utf-8", "surrogateescape")))
                elif info.isreg() and (content := archive.extractfile(info)):
                    entries.append((b"f", path, info.mode & 0o777, content.read()))
                else:
                    raise ToolError(f"the archive has {info.name!r}, which is not a file, directory or symbolic link")
    except (tarfile.TarError, SandboxError, OSError, ValueError) as error:
        raise ToolError(f"the archive cannot be read: {error}") from None
    return entries


def puts(entries: Iterable[Entry]) -> Iterator[list[bytes]]:
    """Yield requests that put these entries, all of them small: large files are put in pieces.

    A directory is first created with a mode that allows filling it, and gets its own mode in the end.
    """
    batch, size, modes = list[bytes](), 0, list[bytes]()
    for kind, path, mode, content in entries:
        if kind == b"d":
            modes = [b"m", path, b"%d" % mode, b"", *modes]
        pieces = [content[at : at + PIECE] for at in range(0, len(content), PIECE)] or [content]
        for index, piece in enumerate(pieces):
            now = mode if index == len(pieces) - 1 and kind != b"d" else mode | 0o700
            batch += [kind if index == 0 else b"a", path, b"%d" % now, piece]
            size += len(piece) + len(path) + 32
            if size >= PIECE:
                yield [b"put", *batch]
                batch, size = [], 0
    if batch or modes:
        yield [b"put", *batch, *modes]
