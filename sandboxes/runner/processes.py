"""Processes of this machine, seen from outside a sandbox: who descends from whom, and who still lives."""

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
    """A process as the owner of sandboxes: its number, and when it started, for numbers are used again."""

    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.pid}-{self.started}"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return started_at(self.pid) == self.started


def this_process() -> Owner:
    """The owner of what is made now."""
    return Owner(os.getpid(), started_at(os.getpid()) or 0)


def owner_in(name: str) -> Owner | None:
    """The owner that a name such as ``turnwise-123-456-7`` tells; ``None`` if it tells none."""
    words = name.split("-")
    if len(words) < 4 or words[0] != "turnwise" or not (words[1].isdigit() and words[2].isdigit()):
        return None
    return Owner(int(words[1]), int(words[2]))


def started_at(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; ``None`` if it has ended."""
    facts = _facts(PROC / str(pid))
    return int(facts[19]) if facts and facts[0] not in ("Z", "X") else None


def parents() -> dict[int, int]:
    """Of every process that lives, the one above it."""
    return {
        int(folder.name): int(facts[1])
        for folder in PROC.iterdir()
        if folder.name.isdigit() and (facts := _facts(folder)) and facts[0] not in ("Z", "X")
    }


def descendants(root: int) -> set[int]:
    """Everything that descends from a process and lives, without itself."""
    known = parents()
    members, grown = {root}, True
    while grown:
        more = {pid for pid, parent in known.items() if parent in members and pid not in members}
        members |= more
        grown = bool(more)
    return members - {root}


def marks(variable: str) -> dict[int, str]:
    """The value of an environment variable in each process that was started with it, as far as we may look."""
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
    """Kill processes again and again until no more are found, and say how many there were.

    Args:
        found: who shall be killed; it is asked each time, for who is killed may have started others.
        patience: seconds.
        looks: how often in a row nothing must be found. A process has no environment for an instant while it becomes
            another program, and who is born while we look is not seen.

    Raises:
        SandboxError: some are still there.
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
    """What ``/proc/PID/stat`` says after the name; empty if it is gone."""
    try:
        text = (folder / "stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rfind(")") + 2 :].split()
