"""A table of a store's episodes: a few columns of each Parquet part, read once, then filtered and sorted in memory."""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from ..errors import StoreError
from ..rollouts.columns import text_in
from ..rollouts.schema import SCHEMA, up_to_date
from ..rollouts.store import parts, run_of

STEP = "step"
"""Fingerprint of a training episode that has its step."""
PLAIN = ("episode_id", "group_id", "env_id", "outcome", "success", "total_reward", "error", "attempts", "seconds")
TASK = ("template", "level", "seed", "split")
FAILURES = ("after_action", "redrawn")
"""Counts of failures that a comparison of runs reads."""
CHOICES = ("outcome", "split", "template", "env_id", "level")
"""Columns with few values, of which a filter names one or several."""
OFFERED = 100
"""The most values of such a column that a page offers."""
NEEDED = (*PLAIN, *FAILURES, "task", "fork", "fingerprints", "out_of_turns")
ROWS = pa.schema(
    [SCHEMA.field(name) for name in (*PLAIN, *FAILURES)]
    + [SCHEMA.field("task").type.field(name) for name in ("family", *TASK)]
    + [("turns", pa.int64()), ("parent", pa.string()), ("fork_turn", pa.int64()), ("step", pa.int64())]
    + [("part", pa.int32()), ("row", pa.int32())]
)
"""Columns of the table; ``part`` and ``row`` say where the episode is stored."""
SETTLED = 2 * 10**9
"""Nanoseconds after a change of a folder before its time alone tells that nothing changed."""
LONGEST_STEP = 18
"""The most digits of a step; a longer number is not a step, and would not fit into the column."""
READERS = 2
"""Threads that read parts; more would compete with a run on the same machine."""
LATER = 4
"""Factor of the time to read after the first call, since joining what is read costs time in each call."""
AT_ONCE = 32
"""Parts that are read before the next look at the clock."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The episodes of a store at one moment.

    Args:
        table: one row per episode, in the order of writing.
        files: parts of the store; the column ``part`` counts them.
        problems: parts that cannot be read, one line each.
        choices: values of the columns ``CHOICES``, each with its number of episodes.
        unread: number of parts that are not read yet; ask again.
    """

    table: pa.Table
    files: tuple[Path, ...]
    problems: tuple[str, ...]
    choices: dict[str, dict[str, int]]
    unread: int = 0


class EpisodeIndex:
    """The light columns of one store, brought up to date part by part; a part that appeared is read once.

    Args:
        path: folder of the store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[Path, tuple[tuple[int, int, int], pa.Table | str]] = {}
        self._snapshot: Snapshot | None = None
        self._stamps: tuple[tuple[int, int, int], ...] = ()  # of the parts in the snapshot
        self._folder = -1
        self._lock = threading.Lock()

    def snapshot(self, seconds: float = math.inf) -> Snapshot:
        """Return all episodes that are in the store now, or those that can be read in a time.

        Args:
            seconds: time after which parts are left for the next call; at least some are read.

        Raises:
            StoreError: There is no store, or it has another format.
        """
        with self._lock:
            # Parts appear and change by a rename, which also changes their folder; a recent change may hide another.
            run_of(self.path)
            folder = os.stat(self.path).st_mtime_ns
            if self._snapshot is not None and folder == self._folder:
                return self._snapshot
            self._folder = folder if time.time_ns() - folder > SETTLED else -1
            there = {file: _stamp(file) for file in parts(self.path)}
            new = [file for file, stamp in there.items() if self._read.get(file, (None,))[0] != stamp]
            if not new and self._snapshot is not None and there.keys() == self._read.keys():
                return self._snapshot
            longer = LATER if self._snapshot is not None and self._snapshot.unread else 1
            unread = self._read_parts({file: there[file] for file in new}, time.monotonic() + longer * seconds)
            self._read = {file: self._read[file] for file in there if file in self._read}
            if unread:
                self._folder = -1
            self._snapshot = self._joined(unread)
            return self._snapshot

    def _read_parts(self, new: dict[Path, tuple[int, int, int]], end: float) -> int:
        """Read parts in their order until a time, and return how many are left."""
        files = list(new)
        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(files), AT_ONCE):
                if start and time.monotonic() > end:
                    return len(files) - start
                some = files[start : start + AT_ONCE]
                self._read |= {f: (new[f], found) for f, found in zip(some, readers.map(_light, some), strict=True)}
        return 0

    def _joined(self, unread: int) -> Snapshot:
        """Join what is read; parts that the last snapshot has in the same places are not joined again."""
        files, stamps = tuple(self._read), tuple(stamp for stamp, _ in self._read.values())
        before, known = self._snapshot, len(self._stamps)
        if before is None or (files[:known], stamps[:known]) != (before.files, self._stamps):
            before, known = None, 0
        tables = [ROWS.empty_table() if before is None else before.table]
        problems = [] if before is None else list(before.problems)
        for number, file in enumerate(files[known:], known):
            found = self._read[file][1]
            if isinstance(found, str):
                problems.append(f"cannot read {file.name}: {found}; its episodes are missing here")
                continue
            at = ROWS.get_field_index("part")
            tables.append(found.set_column(at, ROWS.field(at), pa.array([number], pa.int32()).take(_zeros(len(found)))))
        table = pa.concat_tables(tables).combine_chunks()
        self._stamps = stamps
        return Snapshot(table, files, tuple(problems), _choices(table), unread)


def _choices(table: pa.Table) -> dict[str, dict[str, int]]:
    found = {}
    for name in CHOICES:
        pairs = [(pair["values"], pair["counts"]) for pair in compute.value_counts(table[name]).to_pylist()]
        named = [(str(text_in(value) if isinstance(value, str) else value), count) for value, count in pairs]
        found[name] = dict(sorted(named)[:OFFERED])
    return found


def _zeros(count: int) -> pa.Array:
    return pa.array(memoryview(bytes(count))) if count else pa.array([], pa.int8())


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        stat = os.stat(file)
    except OSError:
        return 0, 0, 0
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _light(file: Path) -> pa.Table | str:
    """Return the rows of one part, or what is wrong with it."""
    try:
        with pq.ParquetFile(file) as parquet:
            names = set(parquet.schema_arrow.names)
            reward = leaf(parquet, "turns", "reward")
            if "out_of_turns" not in names or reward is None:  # of an older version, which is converted as a whole
                table = up_to_date(parquet.read())
            else:
                table = parquet.read(columns=[*(name for name in NEEDED if name in names), reward], use_threads=False)
        return _rows(table)
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, StoreError) as error:
        return str(error).partition("\n")[0] or type(error).__name__


def leaf(parquet: pq.ParquetFile, first: str, *names: str) -> str | None:
    """Return the path of a column below ``first``, whatever the writer calls the elements of a list."""
    for path in (str(parquet.schema.column(number).path) for number in range(len(parquet.schema))):
        if path.startswith(f"{first}.") and _named(path.split(".")) == [first, *names]:
            return path
    return None


def _named(words: list[str]) -> list[str]:
    """Remove the two words of each list (``list.element``, ``list.item``) from a path."""
    found, at = [], 0
    while at < len(words):
        found.append(words[at])
        at += 3 if at + 2 < len(words) and words[at + 1] == "list" and words[at + 2] in ("element", "item") else 1
    return found


def _rows(table: pa.Table) -> pa.Table:
    table = table.combine_chunks()
    columns = {name: table[name] for name in (*PLAIN, *FAILURES)}
    columns |= {name: compute.struct_field(table["task"], name) for name in ("family", *TASK)}
    columns["turns"] = compute.list_value_length(table["turns"]).cast(pa.int64())
    columns["parent"] = compute.struct_field(table["fork"], "parent")
    columns["fork_turn"] = compute.list_value_length(compute.struct_field(table["fork"], "owners")).cast(pa.int64())
    columns["step"] = pa.array([_step(pairs) for pairs in table["fingerprints"].to_pylist()], pa.int64())
    count = table.num_rows
    columns["part"] = pa.array([0] * count, pa.int32())
    columns["row"] = pa.array(range(count), pa.int32())
    return pa.table([columns[field.name] for field in ROWS], schema=ROWS)


def _step(pairs: list[dict[str, Any]] | None) -> int | None:
    found = next((pair["value"] for pair in reversed(pairs or []) if pair["name"] == STEP), None)
    return step_in(found)


def step_in(text: str | None) -> int | None:
    """Return the step in a fingerprint, or ``None`` if it is not one."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= LONGEST_STEP else None
