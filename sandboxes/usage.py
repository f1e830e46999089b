"""Kernel counters of a control group, of either version: memory, processes, processor time, kills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .result import Stats

ROOT = Path("/sys/fs/cgroup")
NOWHERE = Path("/nowhere")
BOTH = ""
"""Key for all controllers: version 2 of control groups has one directory."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Locations of the counters of one sandbox.

    Args:
        directories: directory of each controller; for version 2 one, under the empty name. Empty if unknown.
    """

    directories: Mapping[str, Path]

    def stats(self, seconds: float) -> Stats:
        """Return the current usage; values that cannot be read are ``None``.

        Args:
            seconds: seconds since the sandbox was created.
        """
        both = self.directories.get(BOTH)
        if both is not None:
            microseconds = _named(both / "cpu.stat", "usage_usec")
            return Stats(
                memory=_number(both / "memory.current"),
                memory_peak=_number(both / "memory.peak"),
                pids=_number(both / "pids.current"),
                cpu_seconds=None if microseconds is None else microseconds / 1e6,
                oom_kills=_named(both / "memory.events", "oom_kill"),
                seconds=seconds,
            )
        memory, pids = (self.directories.get(name, NOWHERE) for name in ("memory", "pids"))
        cpu = self.directories.get("cpuacct", self.directories.get("cpu", NOWHERE))  # often they are one
        nanoseconds = _number(cpu / "cpuacct.usage")
        return Stats(
            memory=_number(memory / "memory.usage_in_bytes"),
            memory_peak=_number(memory / "memory.max_usage_in_bytes"),
            pids=_number(pids / "pids.current"),
            cpu_seconds=None if nanoseconds is None else nanoseconds / 1e9,
            oom_kills=_named(memory / "memory.oom_control", "oom_kill"),
            seconds=seconds,
        )


def usage_of(pid: int, name: str) -> Usage | None:
    """Return the counters of the control group of a process.

    Args:
        pid: id of the process.
        name: text that the group's path must contain, so that no other group is used.

    Returns:
        ``None`` if it is in no such group, or the group is not visible.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    found = dict[str, Path]()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if name in path and ".." not in path:
            for controller in controllers.split(","):
                directory = ROOT / controller / path.lstrip("/")
                if directory.is_dir():
                    found[controller] = directory
    if "memory" in found:
        found.pop(BOTH, None)  # both versions at once: the first counts
    return Usage(found) if found else None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _named(file: Path, name: str) -> int | None:
    """Return the number after a name, in a file of such lines."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)
