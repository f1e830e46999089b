"""The processes that a driver and a browser are: whether one still runs, what is below it, and how large that is.

Read from ``/proc``; where there is none, nothing is known of them and nothing is done to them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from ....sandboxes.runner.processes import PROC, Owner, descendants, parents, started_at


class Process(Owner):
    """One process, and no later one that has got its number."""

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self.alive:
            with suppress(OSError):  # it has ended meanwhile
                os.kill(self.pid, signal.SIGKILL)


def process(pid: int) -> Process | None:
    """A process by its number; nothing if it has ended, or nothing is known of it."""
    started = started_at(pid)
    return None if started is None else Process(pid, started)


def driver_of(pid: int) -> Process | None:
    """The child of this process below which another one runs: the driver that has started a browser.

    Args:
        pid: of the browser.
    """
    above = parents() if PROC.is_dir() else {}
    while pid in above and above[pid] != os.getpid():
        pid = above[pid]
    return process(pid) if pid in above else None


def memory(pid: int, kind: str = "resident") -> int:
    """Bytes of a process and all below it; 0 where there is no ``/proc``.

    Args:
        pid: of the first.
        kind: ``"resident"``, which counts what several share for each of them, or ``"shared"`` (PSS), which does not
            and takes milliseconds for every process.
    """
    return sum(map(_shared if kind == "shared" else _resident, below(pid)))


def below(pid: int) -> list[int]:
    """A process and its descendants."""
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
