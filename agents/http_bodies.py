"""Read what a server sends within bounds: bytes after decompression, depth of JSON, size of numbers."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import httpx

from .tool_calls import no_constant

DEEPEST = 100
"""The deepest nesting of JSON that is accepted from a server. Deeper values break copying, storing and printing."""
LARGEST = 2**63 - 1
"""The largest integer that is accepted from a server: what a file of episodes can hold."""
COMPRESSED = ("gzip", "x-gzip", "deflate")
PIECE = 65536


class BodyError(Exception):
    """A body that exceeds its bound, or that cannot be decompressed.

    Args:
        message: what is wrong with it.
        kind: a word to count by.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


async def read_body(response: httpx.Response, max_bytes: int) -> bytes:
    """The body of a streamed response, decompressed.

    Bodies are asked for as they are; a proxy that compresses them all the same is understood, but nothing is
    decompressed beyond the bound: a few kilobytes may hold gigabytes.

    Args:
        response: what came, still open.
        max_bytes: of the whole body, after decompression.

    Raises:
        BodyError: it is longer, or not in an encoding that it names.
        httpx.HTTPError: the connection broke.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", *COMPRESSED):
        raise BodyError(f"its answer has the encoding {encoding[:40]!r}, which was not requested", "bad encoding")
    unzip = zlib.decompressobj(47 if "gzip" in encoding else 15) if encoding in COMPRESSED else None
    received, raw = bytearray(), 0
    if response.is_stream_consumed:  # made of whole content, as a mock transport does
        return response.content
    async for chunk in response.aiter_raw(PIECE):
        raw += len(chunk)
        try:
            received += chunk if unzip is None else unzip.decompress(chunk, max_bytes + 1 - len(received))
        except zlib.error as error:
            raise BodyError(f"its answer is not {encoding} as declared ({error})", "bad encoding") from None
        if max(raw, len(received)) > max_bytes:
            raise BodyError(f"its answer is longer than {max_bytes:,} bytes", "endless answer")
    if unzip is not None and not unzip.eof:
        raise BodyError(f"its answer ends in the middle of its {encoding} encoding", "bad encoding")
    return bytes(received)


def loads(source: str | bytes, *, largest: float = LARGEST) -> Any:
    """JSON that is no deeper than ``DEEPEST``, and whose numbers are finite and not too large.

    Args:
        source: JSON in UTF-8.
        largest: absolute value of a number; ``inf`` for what a model wrote, whose numbers are its own affair.

    Raises:
        ValueError: it is not.
    """
    try:
        value = json.loads(source, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        for each in level:
            if isinstance(each, int | float) and not (-largest <= each <= largest and abs(each) != math.inf):
                raise ValueError("a number is too large")
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    raise ValueError("nested too deeply")
