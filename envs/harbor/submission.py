"""The files that a verifier receives from an agent, without any way from them to the tests."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import PurePosixPath

from ...sandboxes.runner.archives import archived
from ...sandboxes.snapshot import Snapshot
from ..code.workspace import Entry, workspace_of
from .config import Artifact

PROGRAMS = tuple(PurePosixPath(name) for name in ("/usr", "/opt", "/bin", "/sbin", "/lib", "/lib64"))
"""Folders of a pristine image where a link may lead, such as that of a virtual environment to its Python."""
KINDS = {"file": b"f", "directory": b"d", "link": b"l"}


def submitted(work: Snapshot, workdir: str) -> Snapshot:
    """Return the whole working directory of an agent, without unsafe links.

    Args:
        work: the agent's working directory.
        workdir: its path.
    """
    return packed({path: one for path, one in workspace_of(work).entries.items() if is_safe(path, one, workdir)})


def collected(work: Snapshot, workdir: str, artifacts: tuple[Artifact, ...], pristine: Snapshot) -> Snapshot:
    """Return the verifier's own working directory with the artifacts of an agent in it.

    Args:
        work: the agent's working directory.
        workdir: its path, which is also the verifier's.
        artifacts: paths that the task names.
        pristine: working directory of the verifier's image.
    """
    found, kept = workspace_of(work).entries, dict(workspace_of(pristine).entries)
    for artifact in artifacts:
        root = relative(artifact.source, workdir) or ""
        kept = {path: one for path, one in kept.items() if not is_below(path, root)}
        for path, one in found.items():
            below = path[len(root) :].lstrip("/")
            if is_below(path, root) and not is_excluded(below, artifact.exclude) and is_safe(path, one, workdir):
                kept |= {**parents(path, found), path: one}
    return packed(kept)


def relative(source: str, workdir: str) -> str | None:
    """Return the path of an artifact in the working directory (``""`` for all of it); ``None`` if it is elsewhere."""
    path = PurePosixPath(workdir, source)
    return path.relative_to(workdir).as_posix().removeprefix(".") if path.is_relative_to(workdir) else None


def is_below(path: str, root: str) -> bool:
    """Whether a path is a folder or below it."""
    return not root or path == root or path.startswith(f"{root}/")


def is_excluded(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern fits a path, or any folder or name on it."""
    parts = path.split("/")
    names = [*parts, *("/".join(parts[:n]) for n in range(1, len(parts) + 1))]
    return any(fnmatch(name, pattern.rstrip("/")) for pattern in patterns for name in names)


def is_safe(path: str, one: Entry, workdir: str) -> bool:
    """Whether an entry is a file, a folder, or a link that stays in the working directory or leads to programs.

    Any other link could make the tests compare their own expected result with itself, or write to the reward file.
    """
    if one.kind != "link":
        return one.kind in KINDS
    parts = PurePosixPath(one.target).parts
    steps = [part for part in parts if part != "/"]
    up = next((n for n, part in enumerate(steps) if part != ".."), len(steps))
    if ".." in steps[up:] or (up and parts[:1] == ("/",)):
        return False  # it could pass through another link and come out anywhere
    to = PurePosixPath(posixpath.normpath(posixpath.join(workdir, posixpath.dirname(path), one.target)))
    return any(to.is_relative_to(root) for root in (PurePosixPath(workdir), *PROGRAMS))


def parents(path: str, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the folders above a path."""
    above = [str(parent) for parent in PurePosixPath(path).parents if str(parent) != "."]
    return {name: entries.get(name, Entry("directory", 0o755)) for name in above}


def packed(entries: Mapping[str, Entry]) -> Snapshot:
    """Return entries as a snapshot."""
    named = {path.encode("utf-8", "surrogateescape"): one for path, one in entries.items()}
    listed = ((KINDS[one.kind], path, one.mode & 0o777, content_of(one)) for path, one in sorted(named.items()))
    return archived(listed)


def content_of(one: Entry) -> bytes:
    """Return the content of a file, or the target of a link."""
    return one.target.encode("utf-8", "surrogateescape") if one.kind == "link" else one.content
