"""``StartSlots``: bounds how many sandboxes start at a time on a machine, over all processes of a user."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ..errors import SandboxError, UsageError

STARTS = "TURNWISE_SANDBOX_STARTS"
"""Environment variable with the number of sandboxes that may start at a time on this machine."""
WAIT = (0.005, 0.05)
"""Range of the random seconds between two looks for a free slot, so that processes do not look in step."""
CHANCE = random.Random()
"""Generator of its own: an episode that opens a sandbox must not move the global one."""


class StartSlots:
    """Slots for starting sandboxes, shared by the processes of a user on a machine. A dead process holds none.

    Many workers that begin together would otherwise start all their sandboxes at once, and the machine would be busy
    with starts that none of them gets in time.

    Args:
        kind: kind of the sandboxes; each has slots of its own.
        count: number of slots (default: that of the environment variable, or twice the processors, at least 4).
        folder: folder of the locks (default: one of the user's own among the temporary files).

    Raises:
        UsageError: the environment variable is not a number above 0.
    """

    def __init__(self, kind: str, count: int | None = None, folder: Path | None = None) -> None:
        self.count = count or number_from(STARTS, max(4, 2 * (os.cpu_count() or 1)))
        self._folder = folder or Path(tempfile.gettempdir()) / f"turnwise-starts-{os.getuid()}"
        self._kind = kind
        self._turn = asyncio.Lock()  # one of a process looks at a time, the others queue behind it

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, and hold it.

        Raises:
            SandboxError: the folder of the locks belongs to another user.
        """
        async with self._turn:
            lock = await self._acquired()
        try:
            yield
        finally:
            os.close(lock)  # which releases it

    async def _acquired(self) -> int:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if (found := self._folder.lstat()).st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
            raise SandboxError(f"{self._folder} belongs to another user; remove it, or set TMPDIR to another folder")
        while True:
            for number in CHANCE.sample(range(self.count), self.count):
                lock = os.open(self._folder / f"{self._kind}-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                else:
                    return lock
            await asyncio.sleep(CHANCE.uniform(*WAIT))


def number_from(variable: str, default: int) -> int:
    """Return the number in an environment variable.

    Raises:
        UsageError: it is not a number above 0.
    """
    given = os.environ.get(variable, "")
    if not given:
        return default
    if not given.isdigit() or int(given) < 1:
        raise UsageError(f"{variable} must be a whole number above 0; got {given!r}")
    return int(given)
