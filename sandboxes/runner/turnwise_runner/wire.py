"""How the runner speaks with the host, over its standard input and output; ``frames.py`` of the host is the other end.

A message is one or more frames; a frame is a header of nine bytes (length of the body and number of the request, both
big-endian, and one of ``LAST``, ``MORE``, ``FAILED`` and ``ASKED``) and a body. The bodies of a message, joined, are
fields, each with its length before it. A failed message is one frame, a text for people, that replaces what came before
it. ``ASKED`` is no part of an answer: the frame is what code asks the host before its run is answered, and the host
says ``answer`` with the number of the run.
"""

from __future__ import annotations

import posix

LAST, MORE, FAILED, ASKED = 0, 1, 2, 3
HEADER = 9
PIECE = 1 << 18
"""Bytes of a body, at most."""


class Refused(Exception):
    """A request that cannot be fulfilled; its text is for people."""


def packed(fields: list[bytes]) -> bytes:
    """Fields as they travel."""
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def unpacked(body: bytes) -> list[bytes]:
    """The fields of a message."""
    fields, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        fields.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return fields


def write_all(descriptor: int, data: bytes) -> None:
    """Write, however many calls it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[posix.write(descriptor, rest) :]


def send(number: int, kind: int, body: bytes) -> None:
    """One frame to the host."""
    write_all(1, len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + bytes((kind,)) + body)


def answer(number: int, fields: list[bytes]) -> None:
    """A whole message to the host."""
    body = packed(fields)
    while len(body) > PIECE:
        send(number, MORE, body[:PIECE])
        body = body[PIECE:]
    send(number, LAST, body)


def refuse(number: int, why: str) -> None:
    """Say that a request cannot be fulfilled."""
    send(number, FAILED, why.encode("utf-8", "replace")[:4096])


class Incoming:
    """Messages of the host, put together from what has been read."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.started: dict[int, bytearray] = {}

    def feed(self, data: bytes) -> list[tuple[int, list[bytes]]]:
        """The messages that these bytes complete, each with its number."""
        self.buffer += data
        done = []
        while len(self.buffer) >= HEADER:
            size, number = int.from_bytes(self.buffer[:4], "big"), int.from_bytes(self.buffer[4:8], "big")
            if len(self.buffer) < HEADER + size:
                break
            message = self.started.setdefault(number, bytearray())
            message += self.buffer[HEADER : HEADER + size]
            if self.buffer[8] == LAST:
                done.append((number, unpacked(bytes(self.started.pop(number)))))
            del self.buffer[: HEADER + size]
        return done
