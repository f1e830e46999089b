"""Read members of a zip archive, also those compressed with Zstandard, which ``zipfile`` reads from Python 3.14 on."""

from __future__ import annotations

import struct
import zipfile
import zlib

import pyarrow as pa

ZSTANDARD = 93
"""Zstandard's number among the compression methods of the zip format (APPNOTE 6.3.7)."""
LARGEST = 2**30
"""Bytes of the largest member that is read: a few may be packed so well that they fill the memory."""
HEADER = 30
"""Bytes of a local header before its name; the lengths of name and extra field are its last four."""


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the bytes of a member.

    Raises:
        OSError: the file cannot be read, or ends too early.
        zipfile.BadZipFile: the member is damaged.
        NotImplementedError: it has another compression.
    """
    info = archive.NameToInfo[name]
    if info.file_size > LARGEST:
        raise zipfile.BadZipFile(f"{name} has {info.file_size} bytes; at most {LARGEST} are read")
    try:
        return _unpacked(archive, info)
    except (zlib.error, EOFError, RuntimeError, OverflowError, struct.error) as error:
        raise zipfile.BadZipFile(f"{name}: {error}") from None


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    name = info.filename
    if info.compress_type != ZSTANDARD:
        return archive.read(name)
    file = archive.fp
    if file is None:
        raise OSError("the archive is closed")
    file.seek(info.header_offset)
    header = file.read(HEADER)
    if len(header) < HEADER or not header.startswith(b"PK\x03\x04"):
        raise zipfile.BadZipFile(f"no header of {name}")
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    packed = pa.BufferReader(file.read(info.compress_size))
    try:
        data: bytes = pa.CompressedInputStream(packed, "zstd").read(info.file_size + 1)
    except pa.ArrowException as error:
        raise zipfile.BadZipFile(str(error)) from None
    if len(data) != info.file_size:
        raise zipfile.BadZipFile(f"{name} has {len(data)} bytes instead of {info.file_size}")
    return data
