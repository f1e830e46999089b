"""The episode store of an evaluation: new, continued or replaced, and refused before anything is played."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import SpendingCapError, StoreError, UsageError
from ..rollouts.episode import Episode
from ..rollouts.store import MANIFEST, EpisodeStore, exclusive, read_episodes, run_of


@contextmanager
def evaluation_store(
    path: Path, identity: Mapping[str, Any], *, resume: bool, overwrite: bool
) -> Iterator[EpisodeStore]:
    """Open the store of an evaluation, without the episodes that are to be played again.

    Args:
        path: folder of the store.
        identity: settings that a store that is continued must share.
        resume: continue with the episodes that are there.
        overwrite: remove the episodes that are there, whatever evaluation they belong to.

    Raises:
        UsageError: both ``resume`` and ``overwrite`` are set.
        StoreError: the store has episodes that count and neither is set, it belongs to another evaluation, or it
            cannot be opened.
    """
    replace, new = _replaced(path, identity, resume=resume, overwrite=overwrite), _is_new(path)
    with EpisodeStore(path, run=identity, overwrite=replace) as store, _removed_if_refused(store, new):
        store.discard_unscored(after_action=False)
        _refuse_without_resume(path, len(store), resume=resume)
        yield store


def check_store(path: Path, identity: Mapping[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Raise what ``evaluation_store`` would raise; change no episode, and leave no store that was not there.

    Args:
        path: folder of the store.
        identity: as for ``evaluation_store``.
        resume: as for ``evaluation_store``.
        overwrite: as for ``evaluation_store``.

    Raises:
        UsageError: as for ``evaluation_store``.
        StoreError: as for ``evaluation_store``.
    """
    replace, new = _replaced(path, identity, resume=resume, overwrite=overwrite), _is_new(path)
    folder_is_new = _is_new(path.parent)
    # Both find out who else writes to it. What is replaced is not read, since it may be damaged.
    with exclusive(path) if replace else EpisodeStore(path, run=identity):
        if new and folder_is_new:
            _remove(path)
        elif new:
            shutil.rmtree(path, ignore_errors=True)
        elif not replace:
            _refuse_without_resume(path, sum(map(kept_by_resume, read_episodes(path))), resume=resume)


def _replaced(path: Path, identity: Mapping[str, Any], *, resume: bool, overwrite: bool) -> bool:
    """Return whether a store that is there is started over."""
    if resume and overwrite:
        raise UsageError(
            "choose either resume (--resume), which keeps existing episodes, or overwrite (--overwrite), which "
            "replaces them"
        )
    return overwrite or _replaceable(path, identity)


def _refuse_without_resume(path: Path, count: int, *, resume: bool) -> None:
    if count and not resume:
        raise StoreError(
            f"{path} already has {count} episodes; continue it (resume=True, --resume), replace it "
            "(overwrite=True, --overwrite), or name another folder"
        )


def _is_new(path: Path) -> bool:
    return not path.exists()


def kept_by_resume(episode: Episode) -> bool:
    """Whether a continued evaluation keeps an episode instead of playing it again."""
    return episode.scored or episode.after_action > 0


@contextmanager
def _removed_if_refused(store: EpisodeStore, new: bool) -> Iterator[None]:
    """Remove a new store that an error leaves without any episode: a refused evaluation is not an interrupted one."""
    try:
        yield
    except SpendingCapError:
        raise
    except Exception:
        if new and not len(store):
            _remove(store.path)
        raise


def _remove(path: Path) -> None:
    """Remove a store, and the folder of its evaluation if that holds nothing else."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.parent.rmdir()


def _replaceable(path: Path, identity: Mapping[str, Any]) -> bool:
    """Whether a store of other settings has no episode that counts, so that starting over loses nothing.

    With the same settings, its failed episodes are played again instead, and their failures stay counted.

    Raises:
        StoreError: its episodes were played with another version of the environment's source.
    """
    if not (path / MANIFEST).is_file():
        return False
    there = run_of(path)
    changed = there != identity and {**there, "env_source": None} == {**identity, "env_source": None}
    # Failures after an action of the agent count only if the environment has not changed since.
    if not any(episode.scored or (episode.after_action and not changed) for episode in read_episodes(path)):
        return there != identity
    if changed:
        raise StoreError(
            f"the episodes in {path} belong to another version of {identity['env']}: its source has changed since, or "
            "was not recorded; play them again (overwrite=True, --overwrite), or name another folder"
        )
    return False
