"""The other end of ``peer_process``: serves the games of one package until the pipe closes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import NoReturn, Protocol

IDLE_SECONDS = 60.0
"""Seconds that a process waits for another game when the last one has ended."""
MOST_ERRORS = 1 << 20
"""Bytes of standard error beyond which what was written so far is dropped."""


class RefusedError(Exception):
    """The package refuses the arguments, or lacks something: the user's mistake."""


class Game(Protocol):
    """A game; other methods are called by their names, with plain JSON."""

    def close(self) -> None:
        """Release what the game holds."""


def serve(fd: int, folder: str, make: Callable[[], Game]) -> None:
    """Serve games, which a first call creates, until the pipe closes or no game is left for ``IDLE_SECONDS``.

    Then this process ends with all that it started.

    Args:
        fd: inherited socket, one line of JSON per request and per answer.
        folder: folder of this process, which is removed at the end.
        make: creates a game, which another call starts.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    tempfile.tempdir = folder  # also of what a package leaves there
    pipe, requests = socket.socket(fileno=fd), queue.SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(pipe, requests, folder), daemon=True).start()
    games: dict[int, Game] = {}
    seconds = None
    while True:
        try:
            line = requests.get(timeout=seconds)
        except queue.Empty:
            _end(folder)
        if (answer := _answer(games, line, make)) is None:
            seconds = None if games else IDLE_SECONDS
            continue
        seconds = None
        if os.fstat(2).st_size > MOST_ERRORS:
            os.ftruncate(2, 0)
        with contextlib.suppress(OSError):  # the other thread ends this process
            pipe.sendall(answer + b"\n")


def _read(pipe: socket.socket, requests: queue.SimpleQueue[bytes], folder: str) -> None:
    """Pass requests on. When there are no more, end this process, whatever a game is doing, and its own children."""
    with contextlib.suppress(OSError), pipe.makefile("rb") as lines:
        for line in lines:
            requests.put(line)
    _end(folder)


def _end(folder: str) -> NoReturn:
    """End this process and all that it started."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(ProcessLookupError):  # not the leader of a group
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _answer(games: dict[int, Game], line: bytes, make: Callable[[], Game]) -> bytes | None:
    """Return the answer to a request, and close the games that it names; ``None`` if none is left."""
    closed, call = json.loads(line)
    for each in closed:
        with contextlib.suppress(Exception):
            games.pop(each).close()
    if not call:  # null: no game is left; an empty text: there will be others
        return None if call is None else b"{}"
    number, verb, arguments = call
    try:
        if number not in games:
            games[number] = make()
        return json.dumps({"value": getattr(games[number], verb)(**arguments)}).encode()
    except RefusedError as error:
        answer = {"refused": str(error)}
    except (Exception, SystemExit) as error:
        answer = {"failed": f"{type(error).__name__}: {error}"}
    return json.dumps(answer).encode()
