"""Run a command that must not outlive the process that started it; a stand-alone script, run by path.

``python watchdog.py GRACE COMMAND…`` runs COMMAND in a new session and reads standard input. Standard input ends when
the starting process closes it or dies in any way. The script then sends SIGTERM to the command, and after GRACE
seconds it kills the rest of the session. SIGTERM to this script kills the session at once. On Linux, it also kills
descendants that left the session (``setsid``, a daemon). The exit code is that of the command.

``PR_SET_PDEATHSIG`` alone would not do: the kernel sends that signal when the *thread* that started a process ends,
and only to the process itself, while a server has children.
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
"""Seconds between two checks of the command, on systems that do not report when it ends."""


def run(grace: float, command: Sequence[str]) -> int:
    """Run the command until it ends or standard input does.

    Args:
        grace: seconds between the request to stop and the kill.
        command: program and arguments.

    Returns:
        the exit code of the command; negative for the signal that ended it.
    """
    if sys.platform == "linux":  # orphans become children of this script, which can then find them
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
            child.terminate()  # not its children: a server stops them in its own order and cleans up
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(grace)
            break
    kill()  # children of a server that ended by itself, and processes that did not stop
    code = child.wait()
    while stray := _children():  # their own children then become children of this script
        for pid in stray:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return code


def _children() -> list[int]:
    """Return the process ids of this script's children; empty if there is no ``/proc``."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat") as stat:
            # The name is in parentheses and may contain anything; the parent is the second field after it.
            if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def _descriptor_of(child: subprocess.Popen[bytes]) -> list[int]:
    """Return a descriptor that becomes readable when the command ends; empty if the system has none."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return [os.pidfd_open(child.pid)]
    return []


def _follow_the_watchdog() -> None:
    """Make the child stop if this script is killed (Linux only); runs in the child before the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    code = run(float(sys.argv[1]), sys.argv[2:])
    sys.exit(code if code >= 0 else 128 - code)
