"""The processes of a driver and a browser: whether they run, their descendants, and their memory.

All of it is read from ``/proc``. Without ``/proc``, nothing is known about processes and nothing is done to them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from ....sandboxes.runner.processes import PROC, Owner, descendants, parents, started_at


class Process(Owner):
    """One process, as opposed to a later one with the same id."""

    def kill(self) -> None:
        """Kill it if it is still running."""
        if self.alive:
            with suppress(OSError):  # it has ended meanwhile
                os.kill(self.pid, signal.SIGKILL)


def process(pid: int) -> Process | None:
    """Return a process by its id; ``None`` if it has ended, or nothing is known about it."""
    started = started_at(pid)
    return None if started is None else Process(pid, started)


def driver_of(pid: int) -> Process | None:
    """Return the child of this process that is an ancestor of another one: the driver that started a browser.

    Args:
        pid: process id of the browser.
    """
    above = parents() if PROC.is_dir() else {}
    while pid in above and above[pid] != os.getpid():
        pid = above[pid]
    return process(pid) if pid in above else None


def memory(pid: int, kind: str = "resident") -> int:
    """Return the memory of a process and its descendants, in bytes; 0 without ``/proc``.

    Args:
        pid: process id of the ancestor.
        kind: ``"resident"``, which counts shared memory for each process that shares it, or ``"shared"`` (PSS), which
            counts it once and takes milliseconds per process.
    """
    return sum(map(_shared if kind == "shared" else _resident, below(pid)))


def below(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    return [pid, *descendants(pid)] if PROC.is_dir() else [pid]


def _resident(pid: int) -> int:
    return _read(pid, "statm", lambda text: int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE"))


def _shared(pid: int) -> int:
    return _read(pid, "smaps_rollup", lambda text: int(text.split("Pss:")[1].split()[0]) * 1024)


def _read(pid: int, name: str, size: Callable[[str], int]) -> int:
    try:
        return size((PROC / str(pid) / name).read_text())
    except (OSError, ValueError, IndexError):  # it has ended meanwhile
        return 0
