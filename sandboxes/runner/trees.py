"""Removal of a directory of the host with untrusted files."""

from __future__ import annotations

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

from .processes import owner_in


def left_behind(parent: Path, kind: str) -> list[Path]:
    """Return this user's folders named ``turnwise-OWNER-KIND-...`` whose owners have died.

    Args:
        parent: folder to search.
        kind: purpose of the folders.
    """
    found = list[Path]()
    for folder in parent.glob(f"turnwise-*-*-{kind}-*"):
        owner = owner_in(folder.name)
        with suppress(FileNotFoundError):  # another process of this package may remove it, too
            if owner is not None and not owner.alive and _is_ours(folder.lstat()):
                found.append(folder)
    return found


def _is_ours(facts: os.stat_result) -> bool:
    return facts.st_uid == os.getuid() and not stat.S_ISLNK(facts.st_mode)


def remove_tree(folder: Path) -> None:
    """Remove it, at any depth and with any modes: ``shutil.rmtree`` gives up on both.

    Raises:
        OSError: part of it still exists.
    """
    for _ in range(2):
        done = subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], capture_output=True, check=False)
        if done.returncode == 0:
            return
        subprocess.run(["chmod", "-R", "u+rwX", "--", str(folder)], capture_output=True, check=False)
    raise OSError(f"cannot remove {folder}: {done.stderr.decode(errors='replace').strip()[:300]}")
