"""Finding the episodes that a person means: a store, or the folder of a run that holds one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError, UnknownEnvironmentError
from ..rollouts.store import MANIFEST

EPISODES = "episodes"
"""Where the store stands in the folder of an evaluation."""


def store_in(path: Path) -> Path:
    """The episode store at ``path`` or in the run folder ``path``.

    Raises:
        StoreError: there is none.
    """
    for candidate in (path, path / EPISODES):
        if (candidate / MANIFEST).is_file():
            return candidate
    there = (
        f"it is a run of training, which has a model: turnwise eval ENV --policy {path / 'model'}"
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
    """Add to the error on an unknown environment the option that takes its file.

    Raises:
        UnknownEnvironmentError: it was raised inside the block.
    """
    try:
        yield
    except UnknownEnvironmentError as error:
        raise UnknownEnvironmentError(f"{error} Name the file here with --env my_env.py.") from None
