"""One user id for every live sandbox, so that the kernel's counters per user are counters per sandbox.

A process takes an id by creating a file of that name, which only one can; the content names its owner.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ...errors import SandboxError
from ..runner.processes import Owner, this_process

FIRST, COUNT = 1_900_000_000, 65_536
"""A range that is not assigned to people, services or containers (systemd's UIDS-GIDS)."""
RUN = Path("/run")


class Uids:
    """User ids taken by all processes of this machine that make sandboxes as root.

    Args:
        folder: folder of the records, created if missing, and refused if it belongs to another user.
    """

    def __init__(self, folder: Path = RUN / "turnwise-uids") -> None:
        self.folder = folder

    def take(self) -> int:
        """Take an id that no live sandbox has.

        Raises:
            SandboxError: there is none, or they cannot be recorded.
        """
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if self.folder.stat().st_uid != os.getuid() or self.folder.is_symlink():
                raise SandboxError(f"{self.folder} belongs to another user: remove it")
            start = secrets.randbelow(COUNT)
            for step in range(COUNT):
                uid = FIRST + (start + step) % COUNT
                with suppress(FileExistsError), (self.folder / str(uid)).open("x") as record:
                    record.write(str(this_process()))
                    return uid
        except OSError as error:
            raise SandboxError(f"cannot record user ids: {error}") from None
        raise SandboxError(f"all {COUNT} user ids for sandboxes are in use")

    def release(self, uid: int) -> None:
        """Free an id."""
        with suppress(FileNotFoundError):
            (self.folder / str(uid)).unlink()

    def reap(self) -> None:
        """Free the ids whose owners have died; records of another user are left alone."""
        with suppress(FileNotFoundError, PermissionError):
            for record in self.folder.iterdir():
                with suppress(OSError, ValueError):
                    pid, started = record.read_text().split("-")
                    if not Owner(int(pid), int(started)).alive:
                        record.unlink()
