"""Locks of runs and stores: taken by the one process that writes, and looked at by those that watch."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

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
