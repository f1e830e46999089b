"""Temporary folders of browsers: each belongs to its process, and goes with it or before the next browser starts.

Playwright's driver makes a profile and a folder of artifacts for each browser, and removes them. It cannot if it is
killed together with its process, as Ray does with the process group of a worker that died.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ....sandboxes.runner.processes import this_process
from ....sandboxes.runner.trees import left_behind, remove_tree

KIND = "web"
"""Short, like the names of the folders: within one, Chromium has a socket whose path may have 107 characters."""
VARIABLE = "TMPDIR"


def new_folder() -> Path:
    """Return a new folder for one browser, after the removal of those whose processes have died."""
    parent = Path(tempfile.gettempdir())
    for folder in left_behind(parent, KIND):
        with suppress(OSError):  # a browser that is about to exit still writes; the next start removes it
            remove_tree(folder)
    return Path(tempfile.mkdtemp(prefix=f"turnwise-{this_process()}-{KIND}-", dir=parent))


@contextmanager
def as_temporary(folder: Path) -> Iterator[None]:
    """Let programs that start meanwhile put their temporary files into a folder.

    Playwright starts its driver with the environment of this process and takes no other. Python itself has chosen its
    folder before.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def remove_folder(folder: Path) -> None:
    """Remove the folder of a browser that has exited."""
    shutil.rmtree(folder, ignore_errors=True)
