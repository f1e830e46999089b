"""The frames in which a Docker engine carries standard output and standard error over one connection."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import SandboxError

HEADER = 8
STDOUT, STDERR, ENGINE = 1, 2, 3
"""Streams by their number; the third carries an error of the engine itself."""


class Demultiplexer:
    """Takes frames apart, however they are cut into pieces on the way.

    A frame is a byte that names the stream, three zeros, the length in four bytes, most significant first, and so many
    bytes (Docker Engine API, "Attach to a container"). Contents are passed on as they come: nothing is collected, and
    the length that a frame claims costs nothing.
    """

    def __init__(self) -> None:
        self._header = b""
        self._stream = self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Pieces of contents, each with the number of its stream.

        Raises:
            SandboxError: there is no frame where one must be.
        """
        place = 0
        while place < len(data):
            if self._left:
                piece = data[place : place + self._left]
                self._left -= len(piece)
                yield self._stream, piece
                place += len(piece)
                continue
            piece = data[place : place + HEADER - len(self._header)]
            self._header += piece
            place += len(piece)
            if len(self._header) == HEADER:
                header, self._header = self._header, b""
                if header[0] not in (STDOUT, STDERR, ENGINE) or any(header[1:4]):
                    raise SandboxError(f"the docker engine sent an invalid frame: {header!r}")
                self._stream, self._left = header[0], int.from_bytes(header[4:], "big")
