"""Confine the program that runs submitted code: it can read neither ``/tests`` nor the rewards, and stops no one else.

As root, it becomes another user, to whom ``/tests`` is closed. Where the kernel has Landlock (Linux 5.13 or newer), it
also loses access to the folders that are named, and to the memory of processes outside. From Linux 6.12 on, it cannot
send them signals. Without either there is no grade. Python 3.8 is enough for this file.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time
from contextlib import suppress

DUMPABLE, SUBREAPER, NO_NEW_PRIVILEGES = 4, 36, 38
CREATE, ADD, RESTRICT = 444, 445, 446
"""Landlock's system calls, the same on all architectures."""
READ = 0b1101
"""Landlock's rights to execute, to read files and to read folders."""
WRITE_FILE = 0b10
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""All rights by the version of Landlock; later ones are not needed."""
SIGNALS = 2
"""Scope of Landlock from version 6 on: no signals to processes outside."""
STOPPING = 10.0
"""Seconds to stop the processes that submitted code left."""
OTHER = 65534
"""User and group of submitted code, where the tests run as root."""
libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of Landlock; 0 if the kernel has none, or a filter of system calls forbids it."""
    return max(0, int(libc.syscall(CREATE, None, ctypes.c_size_t(0), 1)))


def guard_self() -> None:
    """Keep other processes of this user out of this one's memory, and adopt the orphans among its descendants."""
    libc.prctl(DUMPABLE, 0, 0, 0, 0)
    libc.prctl(SUBREAPER, 1, 0, 0, 0)


def confine(closed: frozenset[str]) -> None:
    """Confine this process and its children; runs in a child, before it executes another program.

    Args:
        closed: names of folders right below ``/`` that become unreadable.
    """
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(OTHER)
        os.setuid(OTHER)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot keep submitted code from gaining privileges")
    if not version():
        return
    rules = ruleset()
    for name in sorted(set(os.listdir("/")) - closed):
        allow(rules, f"/{name}")
    if libc.syscall(RESTRICT, rules, 0):
        raise OSError(ctypes.get_errno(), "cannot restrict the program that runs submitted code")
    os.close(rules)


def ruleset() -> int:
    """Return the descriptor of a new set of rules that allow nothing yet."""
    found = version()
    handled = RIGHTS[min(found, max(RIGHTS))]
    attributes = struct.pack("QQQ", handled, 0, SIGNALS) if found >= 6 else struct.pack("Q", handled)
    rules = libc.syscall(CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "cannot create rules")
    return int(rules)


def allow(rules: int, folder: str) -> None:
    """Allow to read what is in a folder; in ``/tmp`` and ``/dev`` also to write, as in any sandbox."""
    if not os.path.isdir(folder):
        return
    everything = RIGHTS[min(version(), max(RIGHTS))]
    rights = everything if folder in ("/tmp", "/dev") else READ | (WRITE_FILE if folder == "/proc" else 0)
    place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    attributes = struct.pack("=Qi", rights, place)
    if libc.syscall(ADD, rules, 1, attributes, 0):
        raise OSError(ctypes.get_errno(), f"cannot allow {folder}")
    os.close(place)


def stop_descendants() -> bool:
    """Stop every process that came of this one; return whether none is left.

    They are halted first, so that none can start others meanwhile.
    """
    halted: set[int] = set()
    until, found = time.monotonic() + STOPPING, descendants()
    while found - halted and time.monotonic() < until:
        send(found - halted, signal.SIGSTOP)
        halted, found = found, descendants()
    while found and time.monotonic() < until:
        send(found, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        found = descendants()
    return not found


def send(processes: set[int], what: signal.Signals) -> None:
    """Send a signal to processes, some of which may have ended."""
    for process in processes:
        with suppress(OSError):
            os.kill(process, what)


def descendants() -> set[int]:
    """Return the ids of all processes below this one."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found: set[int] = set()
    more = {os.getpid()}
    while more:
        more = {process for process, parent in parents.items() if parent in more} - found
        found |= more
    return found
