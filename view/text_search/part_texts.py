"""Texts of the episodes in one part of a store, joined for a search that only compares bytes.

The texts of an episode follow one another, lower-cased, each with ``END`` after it. Names of tools that the agent
called are there a second time, as they are written, with ``TOOL`` before them. UTF-8 has neither byte, so no match
crosses the border of a text, and no text looks like the name of a tool.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from ...errors import StoreError

END, TOOL = b"\xff", b"\xfe"
SAME = tuple((form.encode(), form.casefold().encode()) for form in "ςµϐϑϕϖϰϱϵ")
"""Second lower-case forms of characters, and the usual ones, of as many bytes."""
FIRST = tuple({form[:1] for form, _ in SAME})


@dataclass(frozen=True, slots=True)
class PartTexts:
    """The texts of a part.

    Args:
        data: joined texts of all episodes.
        ends: end of each episode's texts in ``data``, in the order of the part's rows.
    """

    data: bytes
    ends: Sequence[int]

    def rows_with(self, pattern: bytes) -> np.ndarray[Any, Any]:
        """Return for each episode whether its texts have a pattern."""
        found = np.zeros(len(self.ends), bool)
        at = self.data.find(pattern)
        while at >= 0:
            row = bisect_right(self.ends, at)
            found[row] = True
            at = self.data.find(pattern, self.ends[row])
        return found


def text_pattern(text: str) -> bytes:
    """Return the pattern of a text in any case; a text that UTF-8 cannot represent is nowhere."""
    try:
        return _usual(bytes(compute.utf8_lower(pa.scalar(text)).as_buffer()))
    except UnicodeEncodeError:
        return TOOL + TOOL


def tool_pattern(name: str) -> bytes:
    """Return the pattern of a call of the tool with exactly this name."""
    return _usual(TOOL + name.encode(errors="replace") + END)


def _usual(text: bytes) -> bytes:
    """Replace the second forms of characters, as in a word that ends in a sigma."""
    if not any(first in text for first in FIRST):  # nearly always, and a fifth of the time is saved
        return text
    for form, usual in SAME:
        text = text.replace(form, usual)
    return text


def read_texts(file: Path) -> PartTexts:
    """Read the texts of a part: messages, actions, tool calls with their arguments, thoughts, and errors.

    Records of the world are not read.

    Raises:
        StoreError: The part is damaged.
    """
    try:
        with pq.ParquetFile(file) as parquet:
            paths = [str(parquet.schema.column(number).path) for number in range(len(parquet.schema))]
            table = parquet.read(columns=[path for path in paths if _is_text(path)], use_threads=False)
            count = parquet.metadata.num_rows
        return _joined(table, count)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:  # a footer may name columns in no encoding
        first = str(error).partition("\n")[0]
        raise StoreError(f"cannot search {file.name}: {first}; the file is damaged, or was rewritten") from None


def _is_text(path: str) -> bool:
    words = path.split(".")
    if words[0] in ("thoughts", "error"):
        return True
    return (words[0] in ("turns", "final_observation") and words[-1] in ("text", "arguments", "problem")) or (
        words[0] == "turns" and words[-1] == "name" and "tool_calls" in words
    )


def _joined(table: pa.Table, count: int) -> PartTexts:
    rows, texts = [np.arange(count)], [pa.array([b""] * count, pa.binary())]  # so that the last text has an end, too
    for name in table.column_names:
        column = table[name].combine_chunks()
        for path, own, strings in _leaves(column, np.arange(count), (name,)):
            if strings.null_count:
                known = compute.is_valid(strings)
                strings, own = strings.filter(known), own[known.to_numpy(zero_copy_only=False)]
            if not len(strings):
                continue
            rows, texts = [own, *rows], [compute.utf8_lower(strings).cast(pa.binary()), *texts]
            if path[-1] == "name" and "action" in path:
                marked = compute.binary_join_element_wise(TOOL, strings.cast(pa.binary()), b"")
                rows, texts = [own, *rows], [marked, *texts]
    row_N = np.concatenate(rows)
    order_N = np.argsort(row_N, kind="stable")
    offsets = np.searchsorted(row_N[order_N], np.arange(count + 1)).astype(np.int32)
    ordered = pa.concat_arrays(texts).take(pa.array(order_N))
    joined = compute.binary_join(pa.ListArray.from_arrays(pa.array(offsets), ordered), END)
    data = _usual(b"".join(joined.to_pylist()))
    return PartTexts(data, np.cumsum(compute.binary_length(joined).to_numpy(), dtype=np.int64).tolist())


def _leaves(
    column: pa.Array, rows: np.ndarray[Any, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], np.ndarray[Any, Any], pa.Array]]:
    """Descend through lists and structs to the strings; yield each path with the row of every string."""
    if len(column) == column.null_count:  # nothing below; most stores have columns that none of their episodes uses
        return
    if pa.types.is_struct(column.type):
        for number, field in enumerate(column.type):
            yield from _leaves(compute.struct_field(column, [number]), rows, (*path, field.name))
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        yield path, rows, column.cast(pa.string())
    else:
        parents = compute.list_parent_indices(column).to_numpy()
        yield from _leaves(compute.list_flatten(column), rows[parents], path)
