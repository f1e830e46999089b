"""Locks of runs and stores: taken by the one process that writes, and looked at by those that watch."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

from ..errors import StoreError

TRIES, PAUSE = 4, 0.02
"""A viewer that looks holds a shared lock for microseconds, which must not refuse a writer that starts then."""


def take(descriptor: int) -> bool:
    """Take the exclusive lock of an open file; return whether that worked.

    The kernel releases the lock when the process ends, also after a SIGKILL.

    Args:
        descriptor: descriptor of the open file.
    """
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if left:
                time.sleep(PAUSE)
        else:
            return True
    return False


def acquire(file: Path) -> int:
    """Return the descriptor of an exclusive lock on a store, which the kernel releases when this process ends.

    Args:
        file: lock file in the folder of the store; it says who holds the lock.

    Raises:
        StoreError: another process holds it, or the file cannot be opened or written.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not take(descriptor):
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
                raise StoreError(f"{holder or 'another process'} is writing to episode store {file.parent}")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise StoreError(f"cannot lock episode store {file.parent}: {error}") from None
    return descriptor


def is_taken(path: Path) -> bool:
    """Return whether some process holds the exclusive lock of a file; a file that cannot be opened is not locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False
