"""``harbor:PATH``: the id of the environment that plays a folder of Harbor tasks."""

from __future__ import annotations

from pathlib import Path

from ...errors import UnknownEnvironmentError

SCHEME = "harbor:"


def is_harbor(id: object) -> bool:
    """Whether an environment id names a folder of Harbor tasks."""
    return isinstance(id, str) and id.startswith(SCHEME)


def folder_of(id: str) -> Path:
    """Return the absolute path of the folder that an id names.

    Raises:
        UnknownEnvironmentError: there is no such folder.
    """
    if id == SCHEME:
        raise UnknownEnvironmentError(f"{id!r} names no folder; write harbor:PATH of a task, or of several")
    folder = Path(id.removeprefix(SCHEME)).expanduser()
    if not folder.is_dir():
        raise UnknownEnvironmentError(
            f"there is no folder {folder} for {id!r}; write harbor:PATH of a task, or of several"
        )
    return folder.resolve()
