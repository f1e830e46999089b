"""The files of a sandbox as a value: taken from one backend, it can fill a sandbox of any other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Snapshot:
    """Working directory of a sandbox at one moment, without processes and ``/tmp``.

    Args:
        archive: an uncompressed tar of regular files, directories and symbolic links, sorted by name, with no owner and
            no times, so that equal directories have equal archives.
    """

    archive: bytes

    @cached_property
    def digest(self) -> str:
        """Digest of the content: equal directories have equal digests, on every backend."""
        return hashlib.sha256(self.archive).hexdigest()
