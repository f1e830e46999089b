"""Read the body of a response up to a maximum number of bytes after decompression."""

from __future__ import annotations

import zlib

import httpx

COMPRESSED = ("gzip", "x-gzip", "deflate")
PIECE = 65536


class BodyError(Exception):
    """Raised when a body exceeds its maximum length or cannot be decompressed.

    Args:
        message: description of the fault.
        kind: short name of the fault, for counting.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


async def read_body(response: httpx.Response, max_bytes: int) -> bytes:
    """Return the body of a streamed response, decompressed.

    Requests ask for uncompressed bodies, but a proxy may compress them all the same. Decompression stops at
    ``max_bytes``, because a few kilobytes can expand to gigabytes.

    Args:
        response: open response whose body is still unread.
        max_bytes: maximum length of the whole body, after decompression.

    Raises:
        BodyError: the body is longer, or not in the encoding that its headers declare.
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
