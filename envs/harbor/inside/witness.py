"""Run ``/tests/test.sh`` in a verifier's sandbox, and report what it left: the last word on the reward is the tests'.

Programs of the submission may run during the tests, and run as the same user. One of them could stay behind and write
the reward after the tests did. Such a process has lost its parent, so it becomes a child of this program, which sees
when it ends: no reward counts that was written while an orphan lived. Python 3.8 is enough for this file.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import stat
import sys
import time
from typing import Any

DUMPABLE, SUBREAPER = 4, 36
TESTS = "/tests/test.sh"
LOGS = "/logs/verifier"
MOST = 64 * 1024


def start(argv: list[str], log: str) -> int:
    """Start the tests, with their output in a log, and return their process id."""
    child = os.fork()
    if child:
        return child
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execvp(argv[0], argv)
    finally:
        os._exit(127)


def wait(child: int) -> tuple[int, int]:
    """Wait for the tests; return their status, and when the last orphan lived, in nanoseconds since 1970."""
    last = 0
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            break
        last = time.time_ns()
    while True:  # those that still live, or ended unseen in the meantime
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return status, last
        last = time.time_ns()


def read(name: str) -> dict[str, Any] | None:
    """Return the text of a reward file and when it last changed; a file of another kind is an error."""
    try:
        found = os.open(os.path.join(LOGS, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return {"error": error.strerror or "it cannot be read"}
    facts = os.fstat(found)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST:
        return {"error": "it is not a regular file of a sensible size"}
    text = b""
    while len(text) <= MOST:
        piece = os.read(found, MOST)
        if not piece:
            break
        text += piece
    return {"text": text[:MOST].decode("utf-8", "replace"), "changed": os.fstat(found).st_ctime_ns}


def tail(name: str) -> str:
    """Return the end of the log."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(name, "rb", opener=lambda path, _: os.open(path, flags)) as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 2000))
            return log.read(2000).decode("utf-8", "replace")
    except OSError:
        return ""


def main() -> None:
    """Run the tests, and print a report as JSON."""
    if os.getuid() == 0 or not os.path.exists(TESTS):
        sys.exit("this kills every process that it may: it runs in a verifier's sandbox only, never as root")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(DUMPABLE, 0, 0, 0, 0)  # no other process may open the report's pipe or this memory
    if libc.prctl(SUBREAPER, 1, 0, 0, 0):
        sys.exit("cannot become a subreaper")
    log = LOGS + "/test-stdout.txt"
    status, last = wait(start(["bash", TESTS], log))
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    files = {name: read(name) for name in ("reward.json", "reward.txt")}
    json.dump({"code": code, "files": files, "orphan": last, "log": tail(log)}, sys.stdout)


if __name__ == "__main__":
    main()
