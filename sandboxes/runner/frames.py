"""Messages with the runner, as bytes. Everything from inside is checked here and trusted nowhere.

``turnwise_runner/wire.py``, the other end, describes the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from ...errors import SandboxError

HEADER = 9
PIECE = 1 << 18
"""Bytes of a body, at most."""


class Kind(IntEnum):
    """The role of a frame in its message."""

    LAST = 0
    MORE = 1
    FAILED = 2
    """The message is this error text for users, after any number of earlier frames."""
    ASKED = 3
    """A request of code inside, before the message and not part of it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of a message."""

    number: int
    kind: Kind
    body: bytes


class Frames:
    """Cuts the runner's output into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete.

        Raises:
            SandboxError: the bytes are not a frame, so something other than the runner has written them.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER:
            size = int.from_bytes(self._buffer[:4], "big")
            if size > PIECE or self._buffer[8] not in tuple(Kind):
                raise SandboxError("the sandbox sent data that is not a message of the runner")
            if len(self._buffer) < HEADER + size:
                return
            number, kind = int.from_bytes(self._buffer[4:8], "big"), Kind(self._buffer[8])
            body = bytes(self._buffer[HEADER : HEADER + size])
            del self._buffer[: HEADER + size]
            yield Frame(number, kind, body)

    @property
    def torn(self) -> bool:
        """Whether there is an incomplete frame."""
        return bool(self._buffer)


def message(number: int, fields: Iterable[bytes]) -> bytes:
    """Encode a request."""
    body = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    pieces = [body[at : at + PIECE] for at in range(0, len(body), PIECE)] or [b""]
    kinds = [Kind.MORE] * (len(pieces) - 1) + [Kind.LAST]
    return b"".join(
        len(piece).to_bytes(4, "big") + number.to_bytes(4, "big") + bytes((kind,)) + piece
        for piece, kind in zip(pieces, kinds, strict=True)
    )


def fields_of(body: bytes, count: int | None = None) -> list[bytes]:
    """Return the fields of an answer.

    Raises:
        SandboxError: it has none, or not ``count``.
    """
    fields, at = list[bytes](), 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        if at + 4 > len(body) or end > len(body):
            raise SandboxError("an answer of the runner is truncated")
        fields.append(body[at + 4 : end])
        at = end
    if count is not None and len(fields) != count:
        raise SandboxError(f"an answer of the runner has {len(fields)} fields instead of {count}")
    return fields


def number_in(field: bytes) -> int:
    """Return the natural number in a field.

    Raises:
        SandboxError: the field is not a natural number.
    """
    if not (field.isdigit() and len(field) < 20):
        raise SandboxError(f"an answer of the runner has {field[:40]!r} in place of a number")
    return int(field)


def seconds_in(field: bytes) -> float:
    """Return the time in a field such as ``0.012500``.

    Raises:
        SandboxError: the field is not a time.
    """
    whole, _, part = field.partition(b".")
    return number_in(whole) + number_in(part) / float(10 ** len(part))
