"""Read what a server sends within bounds: bytes after decompression."""

from __future__ import annotations

import zlib

import httpx

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
