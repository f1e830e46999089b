"""``new_file``: write a file under another name first, so that an interrupted command leaves none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from ..errors import UsageError


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield the path to write to; the file gets its name at the end of the block, and is removed at an error.

    Args:
        path: file to create.

    Raises:
        UsageError: it exists already, also if it appeared meanwhile, or its folder does not exist.
    """
    exists = UsageError(f"{path} already exists; name another file, or remove it")
    if os.path.lexists(path):
        raise exists
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}; make it first, or name another file")
    partial = path.with_name(f".{path.name}.{token_hex(8)}")  # of this block alone: a file that a kill left blocks none
    try:
        yield partial
        if os.path.lexists(path):
            raise exists
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
