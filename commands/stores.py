"""Find the episode store that a path means: the path itself, or a run folder that contains one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError, UnknownEnvironmentError
from ..rollouts.store import EPISODES, MANIFEST
from ..rollouts.store_files import lost_manifest


def store_in(path: Path) -> Path:
    """Return the episode store at ``path`` or in the run folder ``path``.

    Raises:
        StoreError: there is no store in either place.
    """
    for candidate in (path, path / EPISODES):
        if (candidate / MANIFEST).is_file() or lost_manifest(candidate):  # reading it then says what to do
            return candidate
    there = (
        f"it is a training run; to evaluate its model: turnwise eval ENV --policy {path / 'model'}"
        if (path / "metrics.jsonl").is_file()
        else "it is an empty or unrelated folder"
        if path.is_dir()
        else "it is a file"
        if path.exists()
        else "it does not exist"
    )
    raise StoreError(
        f"there are no episodes at {path} ({there}); name a folder that `turnwise eval` or `turnwise data` wrote"
    )


@contextmanager
def naming_env_option() -> Iterator[None]:
    """Add a hint about ``--env`` to the error for an unknown environment.

    Raises:
        UnknownEnvironmentError: raised inside the block, with the hint added.
    """
    try:
        yield
    except UnknownEnvironmentError as error:
        raise UnknownEnvironmentError(f"{error} If it is in a file, add --env my_env.py.") from None
