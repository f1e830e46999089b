"""Places inside: paths that are walked name by name, so that no symbolic link is followed on the way."""

from __future__ import annotations

import posix
import stat

from .wire import Refused

ENOENT, EACCES, EEXIST, ENOTDIR, EISDIR, ENOSPC, ELOOP, ENXIO = 2, 13, 17, 20, 21, 28, 40, 6
FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
PLAIN = posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY


def refused(path: bytes, error: OSError) -> Refused:
    """A failure in words."""
    name = path.decode("utf-8", "replace")
    said = {
        ENOENT: f"there is no {name}",
        EACCES: f"it is not permitted to use {name}",
        EEXIST: f"{name} is there already and is something else",
        ENOTDIR: f"{name} is or leads through something that is no directory, or a symbolic link",
        EISDIR: f"{name} is a directory",
        ENOSPC: f"there is no room left for {name}",
        ELOOP: f"{name} is or leads through a symbolic link, which is not followed",
        ENXIO: f"{name} is no regular file",
    }
    return Refused(said.get(error.errno or 0, f"{name}: {posix.strerror(error.errno or 0)}"))


def parts_of(workdir: bytes, path: bytes) -> list[bytes]:
    """The names on the way from the working directory.

    Raises:
        Refused: the path leads out of it.
    """
    inside = path[len(workdir) :] if (path + b"/").startswith(workdir + b"/") else path
    parts = [part for part in inside.split(b"/") if part not in (b"", b".")]
    if b".." in parts or (inside is path and path.startswith(b"/")) or b"\0" in path:
        raise Refused(f"{path.decode('utf-8', 'replace')} leads out of the working directory")
    return parts


def enter(parts: list[bytes], *, make: bool = False) -> None:
    """Make a directory below this one the current one, name by name."""
    for part in parts:
        if make:
            try:
                posix.mkdir(part, 0o755)
            except FileExistsError:
                pass
        descriptor = posix.open(part, FOLDER)
        posix.fchdir(descriptor)
        posix.close(descriptor)


def force_enter(name: bytes) -> int:
    """Enter a directory, whose mode may deny it even to its owner; the mode that it had is returned."""
    mode = stat.S_IMODE(posix.lstat(name).st_mode)
    if mode & 0o700 != 0o700:
        posix.chmod(name, mode | 0o700)
    enter([name])
    return mode
