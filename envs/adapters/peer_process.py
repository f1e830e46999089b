"""A child process in which a package runs for all environments of this process that play its games.

Whatever the package keeps stays there: global generators, temporary files, processes of its own. The child starts with
the first game. It takes seconds to load its package, so it waits for the next game when the last one has ended, and
ends itself after a while. It also ends when this process does, even if that is killed and a game hangs: a thread of the
child reads the end of its pipe, removes its files, and kills its processes.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

from ...errors import EnvironmentDiedError, EnvironmentFailedError, UsageError
from ..child_command import child_command

GRACE = 5.0
"""Seconds in which a child may end itself before it is killed."""
MOST_SECONDS = 110.0
"""Seconds without an answer after which a child is killed: it plays one game at a time, and the others wait."""
ERRORS, LAST_BYTES = "stderr", 2000
"""File in the folder of a child with its standard error, and the bytes at its end that an error quotes from."""
_running: dict[str, _Child] = {}
_lock = threading.Lock()


class NotSentError(EnvironmentDiedError):
    """The process ended before it read the call, which has had no effect."""


class HostedGame:
    """A game in the child process of its package.

    Args:
        module: the module below ``turnwise`` whose ``main`` serves games, as ``peer_child.serve`` does.
    """

    def __init__(self, module: str) -> None:
        with _lock:
            child = _running.get(module)
            if child is None or not child.usable or (child.rests and not child.wake()):
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
            UsageError: the package refuses the arguments, or JSON has no such value.
            EnvironmentFailedError: the method raised.
            EnvironmentDiedError: the process died, or was killed because it did not answer for ``MOST_SECONDS``.
            NotSentError: so it was while this call waited for its turn.
        """
        return self._child.ask(self._number, verb, arguments)

    def close(self) -> None:
        """End the game."""
        if self._end.detach() is not None:
            self._child.release(self._number)
            _let_rest(self._child)


class _Child:
    """The process and the pipe to it, which takes one call at a time."""

    def __init__(self, module: str) -> None:
        self.games: set[int] = set()
        self.next_number = 0
        self.rests = False
        self._closed: list[int] = []
        self._owner, self._turn = os.getpid(), threading.Lock()
        self._accepts_calls, self._stopped = True, False
        self._folder = tempfile.mkdtemp(prefix="turnwise-games-")
        self._pipe, theirs = socket.socketpair()
        with theirs, Path(self._folder, ERRORS).open("ab") as errors:
            # In a session of its own: Ctrl-C is for this process, which then closes the pipe.
            self._process = subprocess.Popen(
                child_command(module, theirs.fileno(), self._folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._answers = self._pipe.makefile("rb")

    @property
    def usable(self) -> bool:
        """Whether the process takes calls; one that was started before a fork of this process does not."""
        return self._accepts_calls and self._owner == os.getpid()

    def wake(self) -> bool:
        """Let the process wait for calls again, unless it has ended itself meanwhile; return whether it does."""
        self.rests = False
        with self._turn, contextlib.suppress(OSError):
            self._pipe.settimeout(MOST_SECONDS)
            self._pipe.sendall(b'[[], ""]\n')
            if self._answers.readline().endswith(b"\n"):
                return True
        self.stop()
        return False

    def rest(self) -> None:
        """Let the last games go, and wait for others. A process whose call hangs ends instead."""
        self.rests = True
        if not self.usable or not self._turn.acquire(blocking=False):
            self.stop()
            return
        try:
            closed, self._closed = self._closed, []
            self._pipe.sendall(f"[{closed}, null]\n".encode())
        except OSError:
            self.stop()
        finally:
            self._turn.release()

    def ask(self, game: int, verb: str, arguments: dict[str, Any]) -> Any:
        """Call a method of a game."""
        try:
            call = json.dumps([game, verb, arguments])
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the game's {verb} takes only values that JSON has: {error}") from None
        self._check_usable()  # before the lock, since a fork of this process may have copied it locked
        with self._turn:
            self._check_usable()
            closed, self._closed = self._closed, []
            try:
                self._pipe.settimeout(MOST_SECONDS)
                self._pipe.sendall(f"[{closed}, {call}]\n".encode())
                line, problem = self._answers.readline(), "died"
            except TimeoutError:
                line, problem = b"", f"was killed, because it gave no answer for {MOST_SECONDS:g} s"
            except OSError:
                line, problem = b"", "died"
            except BaseException:
                self._accepts_calls = False  # the next call would read the answer to this one
                raise
            if not line.endswith(b"\n"):
                raise EnvironmentDiedError(f"the game's process {problem} in {verb}{self.stop()}")
        answer = json.loads(line)
        if "refused" in answer:
            raise UsageError(answer["refused"])
        if "failed" in answer:
            raise EnvironmentFailedError(answer["failed"])
        return answer["value"]

    def _check_usable(self) -> None:
        if not self.usable:
            raise NotSentError("the game's process belongs to another process, or has died; reset starts a new one")

    def release(self, game: int) -> None:
        """Let a game go; the child learns of it from the next request. Without a lock: it also runs in a collection."""
        self.games.discard(game)
        self._closed.append(game)

    def stop(self) -> str:
        """End the process with all that it started, remove its files, and return how it ended; see ``_reason``."""
        self._accepts_calls = False
        if self._owner != os.getpid() or self._stopped:
            return ""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._pipe.shutdown(socket.SHUT_RDWR)  # also ends a call that waits in another thread
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        with contextlib.suppress(ProcessLookupError):  # what it started may outlive it
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._answers.close()
        self._pipe.close()
        reason = self._reason()
        shutil.rmtree(self._folder, ignore_errors=True)
        return reason

    def _reason(self) -> str:
        """Return how the process ended, and the last line of its standard error, to append to a message."""
        text = ""
        with contextlib.suppress(OSError), Path(self._folder, ERRORS).open("rb") as errors:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - LAST_BYTES))
            text = errors.read().decode(errors="replace").strip()
        return f": exit code {self._process.returncode}" + (f", {text.splitlines()[-1]}" if text else "")


def _drop(child: _Child, game: int) -> None:
    """Let a collected game go; another thread does the rest, since a collection may run anywhere."""
    child.release(game)
    if not child.games:
        threading.Thread(target=_let_rest, args=(child,), daemon=True).start()


def _let_rest(child: _Child) -> None:
    with _lock:
        if not child.games and not child.rests:
            child.rest()


@atexit.register
def _stop_all() -> None:
    for child in list(_running.values()):
        child.stop()
