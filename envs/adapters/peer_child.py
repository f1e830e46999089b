"""The other end of ``peer_process``: serves the games of one package until the pipe closes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, Protocol


class RefusedError(Exception):
    """The package refuses the arguments, or lacks something: the user's mistake."""


class Game(Protocol):
    """A game; other methods are called by their names, with plain JSON."""

    def close(self) -> None:
        """Release what the game holds."""


def serve(fd: int, folder: str, make: Callable[[], Game], finish: Callable[[], None] = lambda: None) -> None:
    """Serve games, which a first call creates, and then end this process.

    Args:
        fd: inherited socket, one line of JSON per request and per answer.
        folder: folder of this process, which is removed at the end.
        make: creates a game, which another call starts.
        finish: releases what all games share.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    tempfile.tempdir = folder  # also of what a package leaves there
    games: dict[int, Game] = {}
    with socket.socket(fileno=fd) as pipe, pipe.makefile("rb") as requests:
        for line in requests:
            request = json.loads(line)
            for number in request["closed"]:
                if number in games:
                    with contextlib.suppress(Exception):
                        games.pop(number).close()
            try:
                number = request["game"]
                if number not in games:
                    games[number] = make()
                answer: dict[str, Any] = {"value": getattr(games[number], request["verb"])(**request["arguments"])}
            except RefusedError as error:
                answer = {"refused": str(error)}
            except Exception as error:
                answer = {"failed": f"{type(error).__name__}: {error}"}
            try:
                pipe.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                break
    with contextlib.suppress(Exception):
        finish()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # neither a thread nor a finalizer of the package must keep the process
