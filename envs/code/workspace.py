"""The files of a sandbox as the trusted process sees them: read from a snapshot, never opened in place."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...errors import SandboxError
from ...sandboxes.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file or any other directory entry.

    Args:
        kind: ``file``, ``directory``, ``link`` or ``other``.
        mode: permission bits.
        content: content of a regular file.
        target: target of a symbolic link.
    """

    kind: str
    mode: int
    content: bytes = b""
    target: str = ""


@dataclass(frozen=True)
class Workspace:
    """All entries of a workspace.

    Args:
        entries: entries by path, without the workspace's own directory.
    """

    entries: Mapping[str, Entry]

    def content(self, path: str) -> bytes | None:
        """Return the content of a regular file, or ``None`` if there is none of this name. Links are not followed."""
        entry = self.entries.get(path)
        return entry.content if entry is not None and entry.kind == "file" else None

    def only(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those named files that exist."""
        found = {path: self.content(path) for path in paths}
        return {path: content for path, content in found.items() if content is not None}


def workspace_of(snapshot: Snapshot) -> Workspace:
    """Parse a snapshot.

    Raises:
        SandboxError: the snapshot is not an archive that a sandbox may return.
    """
    entries: dict[str, Entry] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(snapshot.archive), mode="r:") as archive:
            for member in archive:
                path = member.name.removeprefix("./").strip("/")
                if path and path != ".":
                    entries[path] = _entry(archive, member)
    except (tarfile.TarError, ValueError, OSError, EOFError) as error:
        raise SandboxError(f"cannot read the snapshot of a workspace: {type(error).__name__}: {error}") from error
    return Workspace(entries)


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    mode = member.mode & 0o7777
    if member.isreg():
        reader = archive.extractfile(member)
        return Entry("file", mode, reader.read() if reader is not None else b"")
    if member.isdir():
        return Entry("directory", mode)
    return Entry("link", mode, target=member.linkname) if member.issym() else Entry("other", mode)
