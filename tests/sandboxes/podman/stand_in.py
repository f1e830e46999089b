"""A service at a socket that gives the answers of a test, for what a real Podman cannot be made to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from threading import Thread
from typing import Any

DOCKER = {"Version": "24.0", "ApiVersion": "1.43", "Components": [{"Name": "Engine"}]}
PODMAN = {"Version": "5.2", "ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}


class Server(ThreadingMixIn, UnixStreamServer):
    """A server whose requests have a thread each."""

    daemon_threads = True


@contextmanager
def stand_in(folder: Path, answer: Callable[[str], tuple[int, Any]]) -> Iterator[str]:
    """Yield the address of a service.

    Args:
        folder: folder of its socket.
        answer: function from the path of a request to the status and the JSON of its answer.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, value = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with Server(str(folder / "podman.sock"), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"unix://{folder}/podman.sock"
        finally:
            server.shutdown()
            thread.join()
