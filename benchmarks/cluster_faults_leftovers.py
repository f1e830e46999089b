"""Find what killed runs leave on this machine: processes (those of sandboxes and browsers, too), control groups, files.

``Leftovers`` gives everything below this process a folder of its own for temporary files, and remembers each process
that it has seen there. So what an orphan holds is found, and what belongs to other programs of the machine is not.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from turnwise.sandboxes.bubblewrap.cgroups import here
from turnwise.sandboxes.runner.processes import PROC, Owner, descendants, marks, owner_in, started_at

LASTING = ("turnwise-starts-", "torchinductor_")
"""Beginnings of the names of folders that stay on purpose: locks that bound how many sandboxes start at a time, and a
cache of torch."""
UNFINISHED = ("*.part", ".best-*", ".writing-*")
"""Names of files and folders of a run while they are written."""


class Leftovers:
    """Finds what is left of the processes below this one.

    Args:
        folder: new folder for all temporary files; sandboxes, which run as other users, must be able to enter it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        for each in (folder, folder.parent):
            each.chmod(0o755)
        self._folder = folder
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        self._seen: set[Owner] = set()
        self._browsers: set[Owner] = set()

    def look(self) -> None:
        """Remember the present processes; to be called often, and before each kill."""
        for pid in descendants(os.getpid()):
            if started := started_at(pid):
                self._seen.add(owner := Owner(pid, started))
                if f"--user-data-dir={self._folder}" in command_line(pid):
                    self._browsers.add(owner)

    @property
    def browsers(self) -> int:
        """Number of browsers that were seen so far."""
        return len(self._browsers)

    def processes(self, patience: float = 30.0) -> list[str]:
        """Return the processes that outlive the run, except for those of Ray's cluster.

        Args:
            patience: seconds for them to end.
        """
        until = time.monotonic() + patience
        while True:
            self.look()
            alive = {owner.pid for owner in self._seen if owner.alive}
            alive |= {*marks_of(self._folder), *naming(self._folder)}
            lines = {pid: command_line(pid) for pid in alive - {os.getpid()}}
            left = [f"process {pid}: {line[:120]}" for pid, line in sorted(lines.items()) if line and not of_ray(line)]
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.2)

    def groups(self) -> list[str]:
        """Return the control groups of sandboxes whose owners were seen and have died."""
        names = {folder.name for group in here().left() for folder in group.places}
        return [f"control group {name}" for name in sorted(names) if (owner := owner_in(name)) and owner in self._seen]

    def files(self) -> list[str]:
        """Return the temporary files and folders, with those of clusters that a run started."""
        clusters = [path for owner in self._seen for path in Path("/tmp").glob(f"turnwise-ray-{owner.pid}-*")]
        own = [path for path in self._folder.iterdir() if not path.name.startswith(LASTING)]
        return [str(path) for path in sorted([*own, *clusters])]


def unfinished(run: Path) -> list[str]:
    """Return the files of a run that were not written to their end."""
    return [str(path) for pattern in UNFINISHED for path in sorted(run.rglob(pattern))]


def marks_of(folder: Path) -> list[int]:
    """Return the processes whose temporary files go to a folder, or to a browser's within it."""
    return [pid for pid, value in marks("TMPDIR").items() if folder in (Path(value), Path(value).parent)]


def naming(folder: Path) -> list[int]:
    """Return the processes whose command names a folder: a browser its profile, which is a temporary folder."""
    pids = [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]
    return [pid for pid in pids if str(folder) in command_line(pid)]


def command_line(pid: int) -> str:
    """Return the command of a process; empty if it has ended."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def of_ray(line: str) -> bool:
    """Whether a command is one of Ray's own; workers that play are actors, which the cluster counts."""
    return line.startswith("ray::") or "/site-packages/ray/" in line
