"""One control group of a sandbox: its limits, members, counters and end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import SandboxError
from ..spec import Limits
from ..usage import Usage

PERIOD = 100_000
"""Microseconds over which processor time is counted."""
OWN_PROCESSES = 2
"""Processes of the sandbox itself: bubblewrap, and the runner."""


@dataclass(frozen=True)
class Group:
    """A control group: one folder by controller with version 1, the same for all with version 2.

    Args:
        version: 1 or 2.
        folders: folder of each controller.
    """

    version: int
    folders: Mapping[str, Path]

    @property
    def places(self) -> tuple[Path, ...]:
        """Its folders, each once."""
        return tuple(dict.fromkeys(self.folders.values()))

    @property
    def entrances(self) -> tuple[Path, ...]:
        """The files to which a process writes ``0`` to be in the group."""
        return tuple(folder / "cgroup.procs" for folder in self.places)

    def limit(self, limits: Limits) -> None:
        """Apply these limits from now on.

        Raises:
            SandboxError: the kernel refuses.
        """
        for file, value in self._settings(limits):
            place = self.folders.get(file.partition(".")[0])
            if place is not None and (place / file).exists():  # a kernel may count memory but not swap
                try:
                    (place / file).write_text(value)
                except OSError as error:
                    raise SandboxError(f"cannot set the limit {file} = {value}: {error}") from None

    def _settings(self, limits: Limits) -> list[tuple[str, str]]:
        """Return the files and their new contents, in this order."""
        pids, quota = str(limits.pids + OWN_PROCESSES), max(1000, int(limits.cpus * PERIOD))
        if self.version == 2:
            memory = [("memory.max", str(limits.memory)), ("memory.swap.max", "0")]
            return [*memory, ("pids.max", pids), ("cpu.max", f"{quota} {PERIOD}")]
        memory = [("memory.limit_in_bytes", str(limits.memory)), ("memory.memsw.limit_in_bytes", str(limits.memory))]
        cpu = [("cpu.cfs_period_us", str(PERIOD)), ("cpu.cfs_quota_us", str(quota))]
        return [*memory, ("pids.max", pids), *cpu]

    def members(self) -> set[int]:
        """Return the processes in it."""
        found = set[int]()
        for entrance in self.entrances:
            with suppress(OSError):
                found |= {int(pid) for pid in entrance.read_text().split()}
        return found

    def usage(self) -> Usage:
        """Return the files that count its usage."""
        return Usage({"": self.places[0]} if self.version == 2 else self.folders)

    def remove(self) -> None:
        """Remove it; it must be empty, or about to be.

        Raises:
            SandboxError: it cannot be removed.
        """
        until = time.monotonic() + 5
        for folder in self.places:
            while folder.exists():
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:
                    if time.monotonic() > until:
                        raise SandboxError(f"cannot remove the control group {folder}: {error}") from None
                    time.sleep(0.001)
