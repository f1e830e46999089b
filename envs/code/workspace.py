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
    """A regular file, or what else has a name.

    Args:
        kind: ``file``, ``directory``, ``link`` or ``other``.
        mode: permission bits.
        content: of a file.
        target: of a symbolic link.
    """

    kind: str
    mode: int
    content: bytes = b""
    target: str = ""


@dataclass(frozen=True)
class Workspace:
    """Everything in a workspace, by path.

    Args:
        entries: without the workspace itself.
    """

    entries: Mapping[str, Entry]

    def content(self, path: str) -> bytes | None:
        """The bytes of a regular file; ``None`` if there is none of this name. Links are not followed."""
        entry = self.entries.get(path)
        return entry.content if entry is not None and entry.kind == "file" else None

    def only(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Those of the named files that are there."""
        found = {path: self.content(path) for path in paths}
        return {path: content for path, content in found.items() if content is not None}


def workspace_of(snapshot: Snapshot) -> Workspace:
    """What a snapshot holds.

    Raises:
        SandboxError: it is no archive that a sandbox may hand out.
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
