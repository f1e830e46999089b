"""The processes that a driver and a browser are: whether one still runs, what is below it, and how large that is.

Read from ``/proc``; where there is none, nothing is known of them and nothing is done to them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process, and no later one that has got its number.

    Args:
        pid: its number.
        born: when it was started, as the kernel counts.
    """

    pid: int
    born: str

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        state, _, born = _stat(self.pid)
        return born == self.born and state not in ("Z", "X")

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self.runs:
            with suppress(OSError):  # it has ended meanwhile
                os.kill(self.pid, signal.SIGKILL)


def process(pid: int) -> Process | None:
    """A process by its number; nothing if it has ended, or nothing is known of it."""
    born = _stat(pid)[2]
    return Process(pid, born) if born else None


def driver_of(pid: int) -> Process | None:
    """The child of this process below which another one runs: the driver that has started a browser.

    Args:
        pid: of the browser.
    """
    parents = dict(_parents())
    while pid in parents and parents[pid] != os.getpid():
        pid = parents[pid]
    return process(pid) if pid in parents else None


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
    children: dict[int, list[int]] = {}
    for number, parent in _parents():
        children.setdefault(parent, []).append(number)
    found = [pid]
    for one in found:
        found.extend(children.get(one, ()))
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").glob("[0-9]*"):
        if parent := _stat(int(folder.name))[1]:
            yield int(folder.name), int(parent)


def _stat(pid: int) -> tuple[str, str, str]:
    """State, parent and time of birth; empty if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], fields[1], fields[19]
    except (OSError, IndexError):
        return "", "", ""


def _resident(pid: int) -> int:
    return _read(pid, "statm", lambda text: int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE"))


def _shared(pid: int) -> int:
    return _read(pid, "smaps_rollup", lambda text: int(text.split("Pss:")[1].split()[0]) * 1024)


def _read(pid: int, name: str, size: Callable[[str], int]) -> int:
    try:
        return size(Path(f"/proc/{pid}/{name}").read_text())
    except (OSError, ValueError, IndexError):  # it has ended meanwhile
        return 0
