"""The host must stay as it was: what a check plants on it, and signs that a sandbox escaped or left something."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

SECRET = "TURNWISE_CHECK_SECRET"
"""The environment variable that holds the planted secret."""
MARK = "TURNWISE_CHECK_MARK"
"""The environment variable that every process in a sandbox of this check carries, so that it is known from outside."""
PLACES = ("/sys/fs/cgroup", "/run", "/var/run", "/dev/shm")
"""Places where backends keep data of a sandbox, beside the folder for temporary files."""
DEPTH = 5
GRACE = 3.0
"""Seconds in which the kernel may finish what ``destroy`` has ended, e.g. hand zombies to their parents."""


class Host:
    """Everything planted on this machine before the first sandbox is made, and compared after each case.

    Attributes:
        secret: text in the environment, and in a file that only the host's user can read.
        mark: text known to the sandboxes of this check, and to nothing else on the machine.
    """

    def __init__(self) -> None:
        self.secret, self.mark = f"secret-{secrets.token_hex(12)}", f"mark-{secrets.token_hex(12)}"
        self._before = os.environ.get(SECRET)
        os.environ[SECRET] = self.secret
        self._folder = tempfile.TemporaryDirectory(prefix="turnwise-check-")
        self.folder = Path(self._folder.name)
        self.file = self.folder / "secret.txt"
        self.file.write_text(self.secret)
        self.file.chmod(0o600)
        self._mounts = mounts()
        self._name = socket.gethostname()

    def close(self) -> None:
        """Remove everything planted."""
        if self._before is None:
            os.environ.pop(SECRET, None)
        else:
            os.environ[SECRET] = self._before
        self._folder.cleanup()

    def knows(self, text: bytes) -> bool:
        """Whether the planted secret is in what came out of a sandbox."""
        return self.secret.encode() in text

    def harmed(self) -> list[str]:
        """Return human-readable descriptions of everything that has changed."""
        found = []
        if os.environ.get(SECRET) != self.secret or self.file.read_text() != self.secret:
            found.append("the planted secret was changed")
        if strange := sorted(path.name for path in self.folder.iterdir() if path != self.file):
            found.append(f"there are new files in a private folder of the host: {', '.join(strange)}")
        if socket.gethostname() != self._name:
            found.append(f"the host is now called {socket.gethostname()}")
        return found

    def remains(self, ids: Iterable[str]) -> list[str]:
        """Describe what destroyed sandboxes left on this machine; waits a little for the kernel to finish.

        Args:
            ids: ids of the sandboxes.
        """
        names = tuple(ids)
        return settled(lambda: [*self.processes(*names), *self._named(names), *self._mounted(names)])

    def processes(self, *names: str) -> list[str]:
        """Describe processes of this machine with the mark of this check or one of the names."""
        return [f"process {pid} ({command(pid)})" for pid in self._pids(*names)]

    def users(self) -> set[int]:
        """The users, as this machine knows them, whose processes carry the mark."""
        return {os.stat(f"/proc/{pid}").st_uid for pid in self._pids()}

    def _pids(self, *names: str) -> list[int]:
        wanted = [word.encode() for word in (self.mark, *names)]
        return [pid for pid in pids() if any(word in _read(f"/proc/{pid}/environ") for word in wanted)]

    def _named(self, names: tuple[str, ...]) -> list[str]:
        roots = [*PLACES, tempfile.gettempdir()]
        return [
            path for root in dict.fromkeys(roots) for path in walk(root, DEPTH) if any(name in path for name in names)
        ]

    def _mounted(self, names: tuple[str, ...]) -> list[str]:
        return [f"mount {line}" for line in mounts() - self._mounts if any(name in line for name in names)]


def settled(look: Callable[[], list[str]], grace: float = GRACE) -> list[str]:
    """Return what is still found after the kernel had time to finish; return early if nothing is found."""
    until = time.monotonic() + grace
    while (found := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def pids() -> list[int]:
    """All processes of this machine but this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def command(pid: int) -> str:
    """The command line of a process."""
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()[:80]


def mounts() -> set[str]:
    """The mount points of this process."""
    return {line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def walk(root: str, depth: int) -> Iterator[str]:
    """Yield paths of folders and files below one, without following links or reading protected ones."""
    try:
        entries = list(os.scandir(root))
    except OSError:
        return
    for entry in entries:
        yield entry.path
        if depth > 1 and entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path, depth - 1)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
