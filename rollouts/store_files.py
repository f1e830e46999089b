"""The files of an episode store: their names, the rows of a part, and whether a folder may be emptied for a new one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import StoreError
from .annotations import ANNOTATIONS
from .learner_records import UNFINISHED as UNFINISHED_RECORDS
from .schema import SCHEMA, up_to_date

KIND, VERSION = "turnwise.episodes", 4
"""Kind of a store's manifest, and the version of the stores that are written."""
MANIFEST = "_manifest.json"
LOCK = "_lock"
UNFINISHED = "_writing.parquet"
DISCARDED = "_discarded"
TEXT_INDEX = "_texts.index"
"""Name of the index of texts that ``turnwise view --index`` keeps beside the parts."""
FILES = (MANIFEST, f"{MANIFEST}.new", UNFINISHED, DISCARDED, ANNOTATIONS, TEXT_INDEX, UNFINISHED_RECORDS)
"""Names of a store's files beside its lock, its parts and the learner's numbers."""
PART = re.compile(r"part-[0-9]{6,}\.parquet")
OWN = re.compile(rf"{PART.pattern}|_learner-[0-9]+-[0-9]+\.parquet|{LOCK}|{'|'.join(map(re.escape, FILES))}")
"""Pattern of the names of a store's files. Other programs write names that differ little from them."""


def parts(path: Path) -> list[Path]:
    """Return the Parquet files of a store, oldest first."""
    return sorted(each for each in path.glob("part-*.parquet") if PART.fullmatch(each.name))


def lost_manifest(path: Path) -> str:
    """Say that a folder with a store's parts has no manifest, and what to do; empty for any other folder."""
    if (path / MANIFEST).exists() or not any(not _has_other_columns(part) for part in parts(path)):
        return ""
    blank = json.dumps({"kind": KIND, "version": VERSION, "run": {}})
    return (
        f"the episode store {path} has lost its {MANIFEST}: restore that file, or write {blank} into it to read the "
        "episodes (compare, report, export); an evaluation can also replace them all (--overwrite)"
    )


def remove_files(path: Path) -> None:
    """Remove a store's files except its lock, and no other; the episodes first."""
    for file in sorted(path.iterdir(), reverse=True):
        if OWN.fullmatch(file.name) and file.name != LOCK:
            file.unlink(missing_ok=True)


def refuse_to_replace(path: Path, there: list[Path], read: Callable[[], object]) -> None:
    """Refuse to remove files from a folder that may be another program's.

    Args:
        path: folder of the store.
        there: everything in it.
        read: reads the store's manifest, and raises ``StoreError`` if it cannot.

    Raises:
        StoreError: a file of the store is a folder; or the manifest cannot be read, and there is another program's file
            or no part.
    """
    for each in there:
        if OWN.fullmatch(each.name) and each.is_dir():
            raise StoreError(f"cannot replace episode store {path}: {each.name} is a folder; move it away")
    if all(each.name in (LOCK, f"{MANIFEST}.new") for each in there):
        return
    try:
        read()
    except StoreError as error:
        if foreign := _foreign(path, there):
            raise StoreError(f"{error}; it is not replaced, since {foreign} is not a file of a store") from None
        if not any(each.name == MANIFEST or each.suffix == ".parquet" for each in there):
            raise


def _foreign(path: Path, there: list[Path]) -> str | None:
    """Return the name of a file that is not a store's, by its name or by what it holds; a damaged one may be."""
    for each in there:
        if not OWN.fullmatch(each.name):
            return each.name
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return next((part.name for part in parts(path) if _has_other_columns(part)), None)
    return None if isinstance(manifest, dict) and manifest.get("kind") == KIND else MANIFEST


def _has_other_columns(part: Path) -> bool:
    try:
        return not {"episode_id", "turns"} <= set(pq.read_schema(part).names)
    except (OSError, pa.ArrowException):
        return False


def read_table(part: Path, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a part, with the present columns, or those that are named.

    Raises:
        StoreError: the part is damaged, or has other columns.
    """
    try:
        table = pq.ParquetFile(part).read(columns=columns)
    except (OSError, pa.ArrowException) as error:
        first = str(error).partition("\n")[0]
        raise StoreError(
            f"episode store {part.parent} is damaged: cannot read {part.name} ({first}); "
            f"move that file away to lose only its episodes"
        ) from None
    if columns is None:
        table = up_to_date(table)
    wanted = SCHEMA if columns is None else pa.schema([SCHEMA.field(name) for name in columns])
    if not table.schema.equals(wanted, check_metadata=False):
        raise StoreError(f"{part} was not written by Turnwise: it does not have the columns of an episode")
    return table
