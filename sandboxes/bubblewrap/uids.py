"""One user number for every live sandbox: what the kernel counts by user is then counted by sandbox.

A number is taken by making a file of its name, which only one process can; what it holds tells whose it is.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ...errors import SandboxError
from ..runner.processes import Owner, this_process

FIRST, COUNT = 1_900_000_000, 65_536
"""A range that neither people, services nor containers are given (systemd's UIDS-GIDS)."""
RUN = Path("/run")


class Uids:
    """Numbers that are taken, by all processes of this machine that make sandboxes as root.

    Args:
        folder: where that is recorded; made if it is not there, and refused if another user's.
    """

    def __init__(self, folder: Path = RUN / "turnwise-uids") -> None:
        self.folder = folder

    def take(self) -> int:
        """A number that no live sandbox has.

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
        """It is free again."""
        with suppress(FileNotFoundError):
            (self.folder / str(uid)).unlink()

    def reap(self) -> None:
        """Free the numbers whose owners are gone; those of another user are none of ours."""
        with suppress(FileNotFoundError, PermissionError):
            for record in self.folder.iterdir():
                with suppress(OSError, ValueError):
                    pid, started = record.read_text().split("-")
                    if not Owner(int(pid), int(started)).alive:
                        record.unlink()
