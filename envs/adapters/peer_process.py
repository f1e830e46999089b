"""A child process in which a package runs for all environments of this process that play its games.

Whatever the package keeps stays there: global generators, temporary files, processes of its own. The child starts with
the first game and ends with the last one. It also ends when this process does, even if that is killed: it reads the end
of its pipe then, and removes its files.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import weakref
from typing import Any

from ...errors import EnvironmentDiedError, EnvironmentFailedError, UsageError
from ..child_command import child_command

GRACE = 5.0
"""Seconds in which a child may end itself before it is killed."""
_running: dict[str, _Child] = {}
_lock = threading.Lock()


class HostedGame:
    """A game in the child process of its package.

    Args:
        module: the module below ``turnwise`` whose ``main`` serves games, as ``peer_child.serve`` does.
    """

    def __init__(self, module: str) -> None:
        with _lock:
            child = _running.get(module)
            if child is None or not child.usable:
                child = _running[module] = _Child(module)
            self._child, self._number = child, child.next_number
            child.next_number += 1
            child.games.add(self._number)
        self._end = weakref.finalize(self, _drop, child, self._number)
        self._end.atexit = False

    @property
    def usable(self) -> bool:
        """Whether the process lives, as far as is known."""
        return self._child.usable

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Call a method of the game, with arguments and an answer that are plain JSON.

        Raises:
            UsageError: the package refuses the arguments.
            EnvironmentFailedError: the method raised.
            EnvironmentDiedError: the process died.
        """
        return self._child.ask(self._number, verb, arguments)

    def close(self) -> None:
        """End the game, and the process if it was the last one."""
        if self._end.detach() is not None:
            self._child.release(self._number)
            _stop_unused(self._child)


class _Child:
    """The process and the pipe to it, which takes one call at a time."""

    def __init__(self, module: str) -> None:
        self.games: set[int] = set()
        self.next_number = 0
        self._closed: list[int] = []
        self._owner, self._turn = os.getpid(), threading.Lock()
        self._broken = self._stopped = False
        self._folder = tempfile.mkdtemp(prefix="turnwise-games-")
        self._pipe, theirs = socket.socketpair()
        with theirs:
            # In a session of its own: Ctrl-C is for this process, which then closes the pipe.
            self._process = subprocess.Popen(
                child_command(module, theirs.fileno(), self._folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._answers = self._pipe.makefile("rb")

    @property
    def usable(self) -> bool:
        """Whether the process takes calls; one that was started before a fork of this process does not."""
        return not self._broken and self._owner == os.getpid()

    def ask(self, game: int, verb: str, arguments: dict[str, Any]) -> Any:
        """Call a method of a game."""
        if not self.usable:
            raise EnvironmentDiedError(
                "the game's process belongs to another process, or has died; reset starts a new one"
            )
        with self._turn:
            closed, self._closed = self._closed, []
            request = {"game": game, "verb": verb, "arguments": arguments, "closed": closed}
            try:
                self._pipe.sendall(json.dumps(request).encode() + b"\n")
                line = self._answers.readline()
            except (OSError, ValueError):
                line = b""
            except BaseException:
                self._broken = True  # the next call would read the answer to this one
                raise
            if not line:
                self.stop()
                raise EnvironmentDiedError(f"the game's process died in {verb}")
        answer = json.loads(line)
        if "refused" in answer:
            raise UsageError(answer["refused"])
        if "failed" in answer:
            raise EnvironmentFailedError(answer["failed"])
        return answer["value"]

    def release(self, game: int) -> None:
        """Let a game go; the child hears of it with the next call. It takes no lock: it also runs in a collection."""
        self.games.discard(game)
        self._closed.append(game)

    def retire(self) -> None:
        """Take no more games: this process is about to end."""
        self._broken = True

    def stop(self) -> None:
        """End the process, and remove its files."""
        self._broken = True
        if self._owner != os.getpid() or self._stopped:
            return
        self._stopped = True
        self._answers.close()
        self._pipe.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _drop(child: _Child, game: int) -> None:
    """Let a collected game go; another thread waits for the process, since a collection may run anywhere."""
    child.release(game)
    if not child.games:
        threading.Thread(target=_stop_unused, args=(child,), daemon=True).start()


def _stop_unused(child: _Child) -> None:
    with _lock:
        if child.games:
            return
        for module in [module for module, each in _running.items() if each is child]:
            del _running[module]
        child.retire()
    child.stop()


@atexit.register
def _stop_all() -> None:
    for child in list(_running.values()):
        child.stop()
