"""Files inside: write, read and remove them; no name leads out of its folder."""

from __future__ import annotations

import posix
import stat

from .places import EISDIR, ENXIO, PLAIN, enter, force_enter, parts_of, refused
from .trees import DIRECTORY, FILE, LINK, MODE, listing, snapshot
from .wire import LAST, MORE, PIECE, Refused, answer, send


def handle(workdir: bytes, number: int, verb: bytes, fields: list[bytes]) -> None:
    """Handle a request.

    Raises:
        Refused: it cannot be done.
    """
    try:
        if verb == b"put":
            folder: list[bytes] | None = None
            for at in range(0, len(fields), 4):
                folder = put(workdir, folder, fields[at], fields[at + 1], int(fields[at + 2]), fields[at + 3])
            answer(number, [])
        elif verb == b"read":
            read(workdir, number, fields[0], int(fields[1]))
        elif verb == b"list":
            listing(workdir, number, fields[0], int(fields[1]), int(fields[2]))
        elif verb == b"remove":
            for path in fields:
                remove(workdir, path)
            answer(number, [])
        elif verb == b"snapshot":
            snapshot(workdir, number, int(fields[0]), int(fields[1]), int(fields[2]))
        else:
            raise Refused("the runner does not know how to " + verb.decode("ascii", "replace"))
    finally:
        posix.chdir(workdir)


def put(
    workdir: bytes, folder: list[bytes] | None, kind: bytes, path: bytes, mode: int, data: bytes
) -> list[bytes] | None:
    """Write a file or continue writing one, create a directory or a link, or set a mode.

    ``folder`` is the directory of the last entry, still the current one; return that of this entry.
    """
    parts = parts_of(workdir, path)
    try:
        if not parts:
            if kind in (DIRECTORY, MODE):
                return folder
            raise OSError(EISDIR, "")
        if parts[:-1] != folder:
            posix.chdir(workdir)
            enter(parts[:-1], make=True)
        name = parts[-1]
        if kind == DIRECTORY:
            enter([name], make=True)
            return parts
        elif kind == LINK:
            posix.symlink(data, name)
        elif kind == MODE:
            posix.chmod(name, mode)
        else:
            start = posix.O_CREAT | posix.O_TRUNC if kind == FILE else posix.O_APPEND
            write(posix.open(name, PLAIN | posix.O_WRONLY | start, mode), mode, data)
        return parts[:-1]
    except OSError as error:
        raise refused(path, error) from None


def write(descriptor: int, mode: int, data: bytes) -> None:
    """Write all data to a regular file."""
    try:
        found = posix.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(ENXIO, "")
        rest = memoryview(data)
        while rest:
            rest = rest[posix.write(descriptor, rest) :]
        if stat.S_IMODE(found.st_mode) != mode:
            posix.fchmod(descriptor, mode)
    finally:
        posix.close(descriptor)


def read(workdir: bytes, number: int, path: bytes, most: int) -> None:
    """Send a regular file; of an absolute path, only the last name must not be a link."""
    try:
        if path.startswith(b"/") and not (path + b"/").startswith(workdir + b"/"):
            descriptor = posix.open(path, PLAIN | posix.O_RDONLY)
        else:
            parts = parts_of(workdir, path)
            posix.chdir(workdir)
            enter(parts[:-1])
            descriptor = posix.open(parts[-1] if parts else b".", PLAIN | posix.O_RDONLY)
    except OSError as error:
        raise refused(path, error) from None
    try:
        _send_file(number, descriptor, path, most)
    except OSError as error:
        raise refused(path, error) from None
    finally:
        posix.close(descriptor)


def _send_file(number: int, descriptor: int, path: bytes, most: int) -> None:
    found, left = posix.fstat(descriptor), most
    if not stat.S_ISREG(found.st_mode):
        raise OSError(EISDIR if stat.S_ISDIR(found.st_mode) else ENXIO, "")
    too_large = Refused(f"{path.decode('utf-8', 'replace')} is larger than {most} bytes")
    if found.st_size > most:
        raise too_large
    while True:
        data = posix.read(descriptor, min(PIECE, left + 1))
        left -= len(data)
        if left < 0:
            raise too_large
        if not data:
            break
        send(number, MORE, data)
    send(number, LAST, b"")


def remove(workdir: bytes, path: bytes) -> None:
    """Remove a file, or a directory with all that is in it; the working directory itself is emptied."""
    parts = parts_of(workdir, path)
    try:
        posix.chdir(workdir)
        if parts:
            enter(parts[:-1])
            _remove_entry(parts[-1])
        else:
            for name in posix.listdir(b"."):
                _remove_entry(name)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise refused(path, error) from None


def _remove_entry(name: bytes) -> None:
    """Remove one entry of the current directory, at any depth."""
    if not _must_be_emptied(name):
        return
    force_enter(name)
    trail, rest = [name], [posix.listdir(b".")]
    while trail:
        if not rest[-1]:
            rest.pop()
            posix.chdir(b"..")
            posix.rmdir(trail.pop())
        elif _must_be_emptied(deeper := rest[-1].pop()):
            force_enter(deeper)
            trail.append(deeper)
            rest.append(posix.listdir(b"."))


def _must_be_emptied(name: bytes) -> bool:
    """Whether an entry is a directory; any other entry is removed directly."""
    if stat.S_ISDIR(posix.lstat(name).st_mode):
        return True
    posix.unlink(name)
    return False
