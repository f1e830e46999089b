"""``EpisodeStore``: a folder of Parquet parts, written during a run, readable by any program at any moment.

::

    runs/eval/
        _manifest.json          kind, schema version, and the run that the store belongs to
        _lock                   locked by the only writer (the kernel releases it when that process dies)
        part-000000.parquet     one row per episode; a part appears whole, by rename, or not at all
        part-000001.parquet
        _discarded              episodes that failed and are to be played again, until their counts are taken over

Pandas reads the folder (``pandas.read_parquet("runs/eval")``), and so do duckdb
(``SELECT success FROM 'runs/eval/part-*.parquet'``) and Hugging Face ``datasets``
(``load_dataset("parquet", data_files="runs/eval/part-*.parquet")``): they skip names that begin with an underscore.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from ..errors import StoreError
from .columns import contradictions, from_table, text_in, to_table
from .episode import Episode
from .locks import acquire
from .store_files import DISCARDED as DISCARDED
from .store_files import KIND, UNFINISHED, lost_manifest, read_table, refuse_to_replace, remove_files
from .store_files import LOCK as LOCK
from .store_files import MANIFEST as MANIFEST
from .store_files import TEXT_INDEX as TEXT_INDEX
from .store_files import VERSION as VERSION
from .store_files import parts as parts

READABLE = (2, 3, VERSION)
"""Version 2 had maps, which Hugging Face ``datasets`` cannot read. Until version 3 every turn limit truncated. An older
store is read by the present rules (``schema.up_to_date``); opened for writing, it is converted."""
EPISODES = "episodes"
"""Name of the store inside the folder of an evaluation."""
FLUSH_EVERY, FLUSH_SECONDS = 32, 30.0
"""Episodes after which, and seconds within which, what is pending becomes a part."""


class EpisodeStore:
    """Appends episodes to a folder, as its only writer.

    Use it as a context manager: leaving it, also by an exception or Ctrl-C, writes pending episodes. After a SIGKILL
    the store has every part that was written, complete, and may be opened again at once.

    Args:
        path: folder of the store; created if it does not exist.
        flush_every: episodes per part. A SIGKILL loses at most this many (they are played again on resume).
        flush_seconds: an episode that arrives this long after the first pending one triggers a flush, so that slow
            episodes do not wait for ``flush_every`` of them.
        run: description of the run (environment, seed, policy, …), JSON-able. An existing store must agree.
        overwrite: whether to remove an existing store's files, whatever run they belong to. A damaged store is
            replaced as well, unless its folder also holds another program's files.

    Raises:
        StoreError: the folder is something else, is damaged, belongs to another run, cannot be read or written, or
            another process writes to it.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        flush_every: int = FLUSH_EVERY,
        flush_seconds: float = FLUSH_SECONDS,
        run: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        self.path = Path(path)
        self._flush_every = flush_every
        self._flush_seconds = flush_seconds
        self._waiting_since = 0.0
        self._pending: list[pa.Table] = []
        self._lock: int | None = None
        _create_folder(self.path, replace=overwrite)
        self._lock = acquire(self.path / LOCK)
        try:
            if overwrite:
                remove_files(self.path)
            self.run = _agreed(self.path, run)
            _convert(self.path)
            (self.path / UNFINISHED).unlink(missing_ok=True)
            ids = (read_table(part, ["episode_id"])["episode_id"].to_pylist() for part in parts(self.path))
            self._ids = {text_in(id) for each in ids for id in each}
            there = from_table(read_table(self.path / DISCARDED)) if (self.path / DISCARDED).exists() else ()
            self.discarded = {each.episode_id: each for each in there if each.episode_id not in self._ids}
            self._next = 1 + max((int(part.stem.split("-")[1]) for part in parts(self.path)), default=-1)
        except OSError as error:
            self._unlock()
            raise StoreError(f"cannot open episode store {path}: {error}") from None
        except BaseException:
            self._unlock()
            raise

    def append(self, episode: Episode) -> None:
        """Add one episode; it is on disk after the next ``flush``.

        Raises:
            StoreError: the store already has its id, or is closed.
            ContractError: it has something that cannot be recorded; nothing else is lost.
        """
        if self._lock is None:
            raise StoreError(f"episode store {self.path} is closed; open it again to append")
        if episode.episode_id in self._ids:
            raise StoreError(
                f"episode {episode.episode_id} is already in {self.path}; pass skip=store.ids() or another seed"
            )
        table, now = to_table(episode), time.monotonic()
        if not self._pending:
            self._waiting_since = now
        self._pending.append(table)
        self._ids.add(episode.episode_id)
        if len(self._pending) >= self._flush_every or now - self._waiting_since >= self._flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Write pending episodes as one part, atomically and durably."""
        if not self._pending:
            return
        _write(self.path, pa.concat_tables(self._pending), self.path / f"part-{self._next:06d}.parquet")
        self._next += 1
        self._pending = []

    def ids(self) -> frozenset[str]:
        """Return the ids of all episodes, including pending ones, for a resumed run to skip."""
        return frozenset(self._ids)

    def discard_unscored(self, *, after_action: bool = True) -> int:
        """Remove episodes that failed for reasons other than the policy, so that a resumed run plays them again.

        Args:
            after_action: whether to remove also those with an infrastructure failure after an action of the agent.

        Returns:
            Number of removed episodes; ``discarded`` has them by id, also after the store is opened again.
        """
        self.flush()
        kept: dict[Path, pa.Table] = {}
        removed: dict[str, Episode] = {}
        for part in parts(self.path):
            table = read_table(part)
            keep = compute.is_valid(table["success"])
            if not after_action:
                keep = compute.or_(keep, compute.greater(compute.fill_null(table["after_action"], 0), 0))
            if not compute.all(keep).as_py():
                removed |= {each.episode_id: each for each in from_table(table.filter(compute.invert(keep)))}
                kept[part] = table.filter(keep)
        if removed:
            self.discarded |= removed
            _write(self.path, pa.concat_tables(map(to_table, self.discarded.values())), self.path / DISCARDED)
        for part, table in kept.items():
            _write(self.path, table, part)
        self._ids -= set(removed)
        return len(removed)

    def close(self) -> None:
        """Write pending episodes and release the lock."""
        if self._lock is None:
            return
        try:
            self.flush()
        finally:
            self._unlock()

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Episode]:
        self.flush()
        return read_episodes(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a store that is to be replaced; it may be new, or damaged.

    Raises:
        StoreError: the folder is something else, cannot be replaced, or another process writes to it.
    """
    _create_folder(path, replace=True)
    lock = acquire(path / LOCK)
    try:
        yield
    finally:
        os.close(lock)


def load_episodes(path: Path | str) -> list[Episode]:
    """Return every episode of a store, in the order of writing.

    Raises:
        StoreError: there is no store at ``path``, or it is damaged.
    """
    return list(read_episodes(path))


def read_episodes(path: Path | str) -> Iterator[Episode]:
    """Yield what ``load_episodes`` returns, with one part in memory at a time; a writing run is not disturbed."""
    _manifest(Path(path))
    return (episode for part in parts(Path(path)) for episode in from_table(read_table(part)))


def run_of(path: Path | str) -> dict[str, Any]:
    """Return the description of the run to which a store belongs, as its writer gave it in ``run``.

    Raises:
        StoreError: there is no store at ``path``, or it is damaged.
    """
    run: dict[str, Any] = _manifest(Path(path))["run"]
    return run


def contradicted(path: Path | str) -> Iterator[tuple[str, str, Any, Any]]:
    """Find derived columns that were modified: episode id, column, stored value, value by the episode."""
    _manifest(Path(path))
    return (found for part in parts(Path(path)) for found in contradictions(read_table(part)))


def _create_folder(path: Path, *, replace: bool = False) -> None:
    """Create the folder, and refuse one that is neither new nor a store.

    Args:
        path: folder of the store.
        replace: whether the store's files are to be removed, so that it may be damaged.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        there = sorted(path.iterdir())
        if replace:
            refuse_to_replace(path, there, lambda: _manifest(path))
        elif any(each.name not in (LOCK, f"{MANIFEST}.new") for each in there):
            _manifest(path)
    except OSError as error:
        raise StoreError(f"cannot make an episode store at {path}: {error.strerror}") from None


def _agreed(path: Path, run: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the run to which the store belongs; it must equal ``run`` if both are given."""
    wanted: dict[str, Any] = json.loads(json.dumps(dict(run or {})))
    if not (path / MANIFEST).exists():
        _write_manifest(path, wanted)
        return wanted
    there = run_of(path)
    if run is not None and there != wanted:
        key = next(key for key in sorted({*there, *wanted}) if there.get(key) != wanted.get(key))
        raise StoreError(
            f"episode store {path} belongs to another run: {key} is {there.get(key)!r} in the store and "
            f"{wanted.get(key)!r} now; choose another path, or resume with the same settings"
        )
    return there


def _write_manifest(path: Path, run: Mapping[str, Any]) -> None:
    new = path / f"{MANIFEST}.new"
    new.write_text(json.dumps({"kind": KIND, "version": VERSION, "run": run}, indent=2) + "\n")
    new.rename(path / MANIFEST)


def _convert(path: Path) -> None:
    """Convert every part of an older store to the current columns, so that other programs read all parts alike."""
    manifest = _manifest(path)
    if manifest["version"] != VERSION:
        for part in parts(path):
            _write(path, read_table(part), part)
        _write_manifest(path, manifest["run"])


def _manifest(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise StoreError(f"there is no episode store at {path}")
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if lost := lost_manifest(path):
            raise StoreError(lost) from None
        inside = [each.parent for each in sorted(path.glob(f"*/{MANIFEST}"))]
        hint = f"; there is one in {inside[0]}" if inside else ""
        raise StoreError(f"{path} is not an episode store: it has no {MANIFEST}{hint}") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"episode store {path} is damaged: cannot read {MANIFEST} ({error})") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND or not isinstance(manifest.get("run"), dict):
        raise StoreError(f"{path} is not an episode store: its {MANIFEST} has another format")
    if manifest.get("version") not in READABLE:
        readable = f"{', '.join(map(str, READABLE[:-1]))} and {READABLE[-1]}"
        raise StoreError(
            f"episode store {path} has version {manifest.get('version')}; this version of Turnwise reads {readable}"
        )
    return manifest


def _write(folder: Path, table: pa.Table, target: Path) -> None:
    unfinished = folder / UNFINISHED
    try:
        pq.write_table(table, unfinished, compression="zstd")
        _sync(unfinished)
        unfinished.rename(target)
        _sync(folder)
    except OSError as error:
        raise StoreError(
            f"cannot write {target}: {error.strerror or error}; earlier episodes are intact: free some space, and "
            "resume to play the rest"
        ) from None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
