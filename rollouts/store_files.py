"""The files of an episode store: their names, the rows of a part, and whether a folder may be emptied for a new one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import StoreError
from .annotations import ANNOTATIONS
from .learner_records import UNFINISHED as UNFINISHED_RECORDS
from .schema import SCHEMA, up_to_date

MANIFEST = "_manifest.json"
LOCK = "_lock"
UNFINISHED = "_writing.parquet"
DISCARDED = "_discarded"
TEXT_INDEX = "_texts.index"
"""Name of the index of texts that ``turnwise view --index`` keeps beside the parts."""
FILES = (MANIFEST, f"{MANIFEST}.new", UNFINISHED, DISCARDED, ANNOTATIONS, TEXT_INDEX, UNFINISHED_RECORDS)
"""Names of a store's files beside its lock, its parts and the learner's numbers."""
OWN = re.compile(rf"part-\d{{6,}}\.parquet|_learner-\d+-\d+\.parquet|{LOCK}|{'|'.join(map(re.escape, FILES))}")
"""Pattern of the names of a store's files."""


def refuse_to_replace(path: Path, there: list[Path], read: Callable[[], object]) -> None:
    """Refuse to remove files from a folder that may be another program's.

    Args:
        path: folder of the store.
        there: everything in it.
        read: reads the store's manifest, and raises ``StoreError`` if it cannot.

    Raises:
        StoreError: a file of the store is a folder; or there is no readable manifest, and other files, or no part.
    """
    for each in there:
        if OWN.fullmatch(each.name) and each.is_dir():
            raise StoreError(f"cannot replace episode store {path}: {each.name} is a folder; move it away")
    if all(each.name in (LOCK, f"{MANIFEST}.new") for each in there):
        return
    try:
        read()
    except StoreError as error:
        others = [each.name for each in there if not OWN.fullmatch(each.name)]
        if others:
            raise StoreError(f"{error}; it is not replaced, since {others[0]} is not a file of a store") from None
        if not any(each.name == MANIFEST or each.suffix == ".parquet" for each in there):
            raise


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
