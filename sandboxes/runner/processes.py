"""Processes of this machine, seen from outside a sandbox: their descendants, and which are alive."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import SandboxError

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that owns sandboxes: its id, and when it started, since ids are reused."""

    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.pid}-{self.started}"

    @property
    def alive(self) -> bool:
        """Whether it still runs; ``True`` without ``/proc``, where this is not known."""
        return not PROC.is_dir() or started_at(self.pid) == self.started


def this_process() -> Owner:
    """Return the owner of everything that is made now."""
    return Owner(os.getpid(), started_at(os.getpid()) or 0)


def owner_in(name: str) -> Owner | None:
    """Return the owner in a name such as ``turnwise-123-456-7``; ``None`` if there is none."""
    words = name.split("-")
    if len(words) < 4 or words[0] != "turnwise" or not (words[1].isdigit() and words[2].isdigit()):
        return None
    return Owner(int(words[1]), int(words[2]))


def started_at(pid: int) -> int | None:
    """Return when a process started, in the kernel's ticks; ``None`` if it has ended."""
    facts = _facts(PROC / str(pid))
    return int(facts[19]) if facts and facts[0] not in ("Z", "X") else None


def parents() -> dict[int, int]:
    """Return the parent of every live process."""
    return {
        int(folder.name): int(facts[1])
        for folder in PROC.iterdir()
        if folder.name.isdigit() and (facts := _facts(folder)) and facts[0] not in ("Z", "X")
    }


def descendants(root: int) -> set[int]:
    """Return all live descendants of a process, without itself."""
    known = parents()
    members, grown = {root}, True
    while grown:
        more = {pid for pid, parent in known.items() if parent in members and pid not in members}
        members |= more
        grown = bool(more)
    return members - {root}


def marks(variable: str) -> dict[int, str]:
    """Return the initial value of an environment variable in each process, as far as this one may read it."""
    found, begins = dict[int, str](), variable.encode() + b"="
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                pairs = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            values = [pair.removeprefix(begins) for pair in pairs if pair.startswith(begins)]
            found.update((int(folder.name), value.decode(errors="replace")) for value in values)
    return found


async def kill_until_none(found: Callable[[], set[int]], patience: float = 10.0, *, looks: int = 1) -> int:
    """Kill processes until no more are found, and return how many there were.

    Args:
        found: function that returns the processes to kill; called each time, since they may have started others.
        patience: seconds.
        looks: how often in a row ``found`` must return nothing. A process has no environment for an instant while it
            becomes another program, and one that is born during a look is missed.

    Raises:
        SandboxError: some are still running.
    """
    killed, until, empty = set[int](), time.monotonic() + patience, 0
    while (rest := found()) or (empty := empty + 1) < looks:
        empty = 0 if rest else empty
        for pid in rest:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= rest
        if time.monotonic() > until:
            raise SandboxError(f"could not kill {len(rest)} processes within {patience:g} s, such as {min(rest)}")
        await asyncio.sleep(0.001)
    return len(killed)


def _facts(folder: Path) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the name; empty if the process has ended."""
    try:
        text = (folder / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rfind(")") + 2 :].split()
