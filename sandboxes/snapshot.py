"""The files of a sandbox as a value: taken from one backend, it fills a sandbox of any other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Snapshot:
    """The working directory of a sandbox at one moment. Processes and ``/tmp`` are not in it.

    Args:
        archive: an uncompressed tar of regular files, directories and symbolic links, sorted by name, with no owner and
            no times, so that equal directories have equal archives.
    """

    archive: bytes

    @cached_property
    def digest(self) -> str:
        """Names the content: equal directories have equal digests, on every backend."""
        return hashlib.sha256(self.archive).hexdigest()
