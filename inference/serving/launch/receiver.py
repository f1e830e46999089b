"""``Receiver``: takes folders over HTTP on a machine that does not see the sender's files, chunk by checked chunk."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

CHUNK = 8 * 2**20
"""Bytes that a sender puts into one request."""
LARGEST = 4 * CHUNK
"""Maximum bytes of one request."""
KEPT = 3
"""Number of the newest entries that remain; servers have read the older ones."""
MODEL = "model"
"""Name of the entry that remains always."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
CHECKSUM = "x-sha256"
SECONDS = 60.0
"""Maximum seconds of silence within a request."""


class Receiver:
    """An HTTP server for one sender that knows its key. An entry in its folder is complete, or absent.

    ``PUT /ENTRY/FILE?offset=N`` writes a chunk, whose SHA-256 is in the header ``x-sha256``, and cuts the file after
    it. So a chunk may be sent again, and the first one starts the file over. ``POST /ENTRY`` with
    ``{"FILE": bytes, …}`` completes an entry that has exactly these files.

    Args:
        folder: folder of the entries.
        host: address to listen on.
        key: secret that every request has to name.
    """

    def __init__(self, folder: Path, host: str, key: str) -> None:
        self.folder, self.key = folder, key
        self._order: list[str] = []
        self._lock = threading.Lock()

        class Handler(_Handler):
            receiver = self
            timeout = SECONDS

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its URL."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def entry(self, name: str) -> Path | None:
        """Return the folder of a complete entry."""
        found = self.folder / name
        return found if found.is_dir() else None

    def write(self, entry: str, file: str, offset: int, data: bytes, checksum: str) -> tuple[HTTPStatus, str]:
        """Write a chunk; return the status and what is wrong with it, if anything."""
        if hashlib.sha256(data).hexdigest() != checksum:
            return HTTPStatus.UNPROCESSABLE_ENTITY, "the checksum differs"
        if offset < 0:
            return HTTPStatus.BAD_REQUEST, "the offset is negative"
        half = self._half(entry)
        with self._lock:
            half.mkdir(parents=True, exist_ok=True)
            with (half / file).open("r+b" if (half / file).exists() else "w+b") as opened:
                if (size := opened.seek(0, os.SEEK_END)) < offset:
                    return HTTPStatus.CONFLICT, f"the file has {size} bytes, and this chunk begins at {offset}"
                opened.seek(offset)
                opened.write(data)
                opened.truncate()
        return HTTPStatus.OK, ""

    def complete(self, entry: str, sizes: dict[str, int]) -> str:
        """Make an entry complete; return what is wrong with it, or nothing."""
        half = self._half(entry)
        with self._lock:
            have = {file.name: file.stat().st_size for file in half.iterdir()} if half.is_dir() else {}
            if have != sizes:
                shutil.rmtree(half, ignore_errors=True)  # left by a sender that stopped, it would refuse all others
                return f"entry {entry} has {have}, and should have {sizes}"
            shutil.rmtree(self.folder / entry, ignore_errors=True)
            half.rename(self.folder / entry)
            self._order = [name for name in self._order if name != entry] + [entry] * (entry != MODEL)
            while len(self._order) > KEPT:
                shutil.rmtree(self.folder / self._order.pop(0), ignore_errors=True)
        return ""

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _half(self, entry: str) -> Path:
        return self.folder / f".{entry}.half"


class _Handler(BaseHTTPRequestHandler):
    """One request to the receiver."""

    receiver: Receiver
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Take a chunk."""
        if (admitted := self._admitted(2)) is not None:
            self._answer(*self._taken(*admitted))

    def do_POST(self) -> None:
        """Complete an entry."""
        if (admitted := self._admitted(1)) is not None:
            self._answer(*self._completed(*admitted))

    def _taken(self, data: bytes, entry: str, file: str) -> tuple[HTTPStatus, str]:
        try:
            offset = int(parse_qs(urlsplit(self.path).query)["offset"][0])
            return self.receiver.write(entry, file, offset, data, self.headers.get(CHECKSUM, ""))
        except (KeyError, ValueError):
            return HTTPStatus.BAD_REQUEST, "no offset"
        except OSError as error:
            return HTTPStatus.INSUFFICIENT_STORAGE, str(error)

    def _completed(self, data: bytes, entry: str) -> tuple[HTTPStatus, str]:
        try:
            sizes = {str(name): int(size) for name, size in json.loads(data).items()}
            wrong = self.receiver.complete(entry, sizes)
        except (ValueError, TypeError, AttributeError):
            return HTTPStatus.BAD_REQUEST, "not a list of files"
        except OSError as error:
            return HTTPStatus.INSUFFICIENT_STORAGE, str(error)
        return HTTPStatus.CONFLICT if wrong else HTTPStatus.OK, wrong

    def _admitted(self, count: int) -> tuple[Any, ...] | None:
        """Return the body of a request and the ``count`` names in its path; ``None`` if it was refused."""
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        parts = urlsplit(self.path).path.strip("/").split("/")
        length = self.headers.get("content-length", "")
        if not hmac.compare_digest(key.encode(), self.receiver.key.encode()):
            self._refuse(HTTPStatus.UNAUTHORIZED, "wrong key")
        elif len(parts) != count or not all(NAME.fullmatch(part) for part in parts):
            self._refuse(HTTPStatus.NOT_FOUND, "no such entry or file can exist")
        elif not length.isdigit() or int(length) > LARGEST:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {LARGEST} bytes")
        else:
            data = self.rfile.read(int(length))
            if len(data) == int(length):
                return (data, *parts)
            self._refuse(HTTPStatus.BAD_REQUEST, "the body is cut")
        return None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # the body was not read
        self._answer(status, why)

    def _answer(self, status: HTTPStatus, wrong: str) -> None:
        body = json.dumps({"error": wrong}).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if self.close_connection:
                self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""
