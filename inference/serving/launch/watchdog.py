"""Run a command that must not outlive whoever started it; a stand-alone script, run by path.

``python watchdog.py GRACE COMMAND…`` runs COMMAND in a session of its own and reads standard input. When that ends,
since whoever holds the other end closed it or is gone, however it went, the command is asked to stop; after GRACE
seconds whatever is left of its session is killed. SIGTERM to this script kills the session at once. On Linux, so is
what left the session (``setsid``, a daemon). The exit code is the command's.

A pipe, and not only ``PR_SET_PDEATHSIG``: the kernel sends that when the *thread* that started a process ends, and
only to the process itself, while a server has children of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL = 0.1
"""Seconds between two looks at the command, where the system does not say when it ends."""


def run(grace: float, command: Sequence[str]) -> int:
    """Run the command until it ends or standard input does.

    Args:
        grace: seconds between being asked to stop and being killed.
        command: program and arguments.

    Returns:
        the exit code of the command; negative for the signal that ended it.
    """
    if sys.platform == "linux":  # what loses its parent becomes a child of this script, and can be found
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_follow_the_watchdog)

    def kill(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)

    signal.signal(signal.SIGTERM, kill)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = _descriptor_of(child)
    while child.poll() is None:
        readable, _, _ = select.select([0, *ended], [], [], None if ended else POLL)
        if 0 in readable and not os.read(0, 1024):
            child.terminate()  # it alone: a server takes its children down in its own order, and cleans up after them
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(grace)
            break
    kill()  # the children of a server that ended by itself, and whatever would not stop
    code = child.wait()
    while stray := _children():  # those that these leave behind become children of this script in turn
        for pid in stray:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return code


def _children() -> list[int]:
    """What this script is the parent of; nothing where there is no ``/proc``."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat") as stat:
            # The name stands in parentheses and may be anything; the parent is the second word after it.
            if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def _descriptor_of(child: subprocess.Popen[bytes]) -> list[int]:
    """What becomes readable when the command ends; nothing where the system has no such thing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return [os.pidfd_open(child.pid)]
    return []


def _follow_the_watchdog() -> None:
    """In the child, before it becomes the command: stop if this script itself is killed (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    code = run(float(sys.argv[1]), sys.argv[2:])
    sys.exit(code if code >= 0 else 128 - code)
