"""Trees inside: list them, and send them as a snapshot.

They are traversed by entering each folder, so that neither depth nor path length matters, in the order of their paths'
parts.
"""

from __future__ import annotations

import posix
import stat

from .places import PLAIN, enter, force_enter, parts_of, refused
from .wire import LAST, MORE, PIECE, Refused, answer, packed, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE, MORE_OF_IT, DIRECTORY, LINK, MODE = b"f", b"a", b"d", b"l", b"m"
BESIDE = 64
"""The most bytes of an entry beside its path and content."""


def walk() -> Iterator[tuple[bytes, bytes, posix.stat_result]]:
    """Yield everything below the current directory: its path, its name in the new current directory, its status."""
    trail, modes, rest = [b""], [0o700], [_descending(b".")]
    while rest:
        if not rest[-1]:
            rest.pop()
            name, mode = trail.pop(), modes.pop()
            if rest:
                posix.chdir(b"..")
                if mode & 0o700 != 0o700:
                    posix.chmod(name.rpartition(b"/")[2], mode)
            continue
        name = rest[-1].pop()
        path = trail[-1] + b"/" + name if trail[-1] else name
        try:
            found = posix.lstat(name)
            yield path, name, found
            if stat.S_ISDIR(found.st_mode):
                modes.append(force_enter(name))
                trail.append(path)
                rest.append(_descending(b"."))
        except FileNotFoundError:  # it was removed meanwhile
            continue


def _descending(folder: bytes) -> list[bytes]:
    return sorted(posix.listdir(folder), reverse=True)


def listing(workdir: bytes, number: int, path: bytes, most: int, room: int) -> None:
    """Send the content of a directory: path, kind, size and mode of each entry, in a limited number of bytes."""
    try:
        if path.startswith(b"/") and not (path + b"/").startswith(workdir + b"/"):
            posix.chdir(path)
        else:
            parts = parts_of(workdir, path)
            posix.chdir(workdir)
            enter(parts)
        fields: list[bytes] = []
        for entry, _, found in walk():
            if len(fields) // 4 == most:
                raise Refused(f"{path.decode('utf-8', 'replace')} holds more than {most} entries")
            room -= len(entry) + BESIDE
            if room < 0:
                raise Refused(f"the paths below {path.decode('utf-8', 'replace')} are too long to list")
            size = found.st_size if stat.S_ISREG(found.st_mode) else 0
            fields += [entry, kind_of(found), b"%d" % size, b"%d" % stat.S_IMODE(found.st_mode)]
    except OSError as error:
        raise refused(path, error) from None
    answer(number, fields)


def kind_of(found: posix.stat_result) -> bytes:
    """Return ``FILE``, ``DIRECTORY`` or ``LINK``; ``o`` for any other kind."""
    if stat.S_ISREG(found.st_mode):
        return FILE
    if stat.S_ISDIR(found.st_mode):
        return DIRECTORY
    return LINK if stat.S_ISLNK(found.st_mode) else b"o"


def snapshot(workdir: bytes, number: int, most: int, entries: int, room: int) -> None:
    """Send every file, directory and link of the working directory: path, kind, mode and content of each.

    ``most`` limits the bytes of files, ``entries`` their number, and ``room`` the bytes of everything else.
    """
    parcel = Parcel(number)
    try:
        posix.chdir(workdir)
        for path, name, found in walk():
            kind = kind_of(found)
            if kind == b"o":
                continue
            size = found.st_size if kind == FILE else 0
            content = posix.readlink(name) if kind == LINK else b""
            most, entries, room = most - size, entries - 1, room - len(path) - len(content) - BESIDE
            if most < 0 or entries < 0 or room < 0:
                raise Refused("the working directory holds more than a snapshot may")
            parcel.add(packed([path, kind, b"%d" % stat.S_IMODE(found.st_mode)]))
            if kind == FILE:
                _add_content(parcel, name, size)
            else:
                parcel.add(packed([content]))
    except OSError as error:
        raise refused(b"the working directory", error) from None
    parcel.close()


class Parcel:
    """An answer that is sent in pieces as soon as they are large enough."""

    def __init__(self, number: int) -> None:
        self.number, self.body = number, bytearray()

    def add(self, data: bytes) -> None:
        """Add data."""
        self.body += data
        while len(self.body) >= PIECE:
            send(self.number, MORE, bytes(self.body[:PIECE]))
            del self.body[:PIECE]

    def close(self) -> None:
        """Send the rest."""
        send(self.number, LAST, bytes(self.body))


def _add_content(parcel: Parcel, name: bytes, size: int) -> None:
    """Add the size and content of a file, with zeros if it has shrunk meanwhile, even if its mode denies reading."""
    try:
        descriptor = posix.open(name, PLAIN | posix.O_RDONLY)
    except PermissionError:
        mode = stat.S_IMODE(posix.lstat(name).st_mode)
        posix.chmod(name, mode | 0o400)
        descriptor = posix.open(name, PLAIN | posix.O_RDONLY)
        posix.chmod(name, mode)
    try:
        parcel.add(size.to_bytes(4, "big"))
        while size:
            data = posix.read(descriptor, min(size, PIECE)) or bytes(min(size, PIECE))
            parcel.add(data)
            size -= len(data)
    finally:
        posix.close(descriptor)
