"""Filter, search and sort episodes: the query of a URL, applied to the table of a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from ..errors import UsageError
from ..rollouts.columns import text_in
from .episode_index import CHOICES, PLAIN, READERS, TASK, Snapshot, leaf

SORTED = (*PLAIN, *TASK, "turns", "step")
"""Columns by which episodes can be sorted."""
RANGES = ("total_reward", "turns", "level", "step", "seconds")
"""Numbers that a filter may bound with ``_min`` and ``_max``."""
SHOWN = (*PLAIN, *TASK, "turns", "parent", "step")
SEARCH_SECONDS = 1.0
"""Seconds that one request may search texts; the next request continues."""
LONGEST_PAGE = 500


@dataclass(frozen=True, slots=True)
class Query:
    """A filter with an order and a page.

    Args:
        choices: allowed values by column.
        ranges: lower and upper bound by column, inclusive.
        success: whether the task was solved; ``None`` for both.
        id: part of an episode's or a group's id; empty for all.
        text: text that the conversation contains, in any case; empty for all.
        tool: name of a tool that the agent called; empty for all.
        sort: column to sort by; empty for the order of writing.
        descending: whether to sort from high to low.
        offset: number of episodes before the page.
        limit: number of episodes on the page.
    """

    choices: Mapping[str, tuple[str, ...]]
    ranges: Mapping[str, tuple[float | None, float | None]]
    success: bool | None = None
    id: str = ""
    text: str = ""
    tool: str = ""
    sort: str = ""
    descending: bool = False
    offset: int = 0
    limit: int = 50

    @classmethod
    def read(cls, parameters: Mapping[str, str | Sequence[str]]) -> Query:
        """Read the parameters of a URL.

        Args:
            parameters: value by name, or several values of a parameter that the URL repeats; those of a column of
                ``CHOICES`` are alternatives, and of any other parameter the last one counts.

        Raises:
            UsageError: A parameter is unknown or has a wrong value.
        """
        repeated = {name: (each,) if isinstance(each, str) else tuple(each) for name, each in parameters.items()}
        given = {name: values[-1] for name, values in repeated.items() if values}
        bounds = {f"{name}_{end}" for name in RANGES for end in ("min", "max")}
        known = {*CHOICES, *bounds, "success", "id", "text", "tool", "sort", "offset", "limit"}
        if unknown := sorted(set(given) - known):
            raise UsageError(f"unknown filter {unknown[0]!r}; choose from {', '.join(sorted(known))}")
        if (success := given.get("success", "")) not in ("", "true", "false"):
            raise UsageError(f"success must be true or false, not {success!r}")
        sort = given.get("sort", "")
        if sort.removeprefix("-") not in ("", *SORTED):
            raise UsageError(f"cannot sort by {sort!r}; choose from {', '.join(SORTED)}")
        ranges = {name: (_number(given, f"{name}_min"), _number(given, f"{name}_max")) for name in RANGES}
        return cls(
            choices={name: repeated[name] for name in CHOICES if given.get(name)},
            ranges={name: pair for name, pair in ranges.items() if pair != (None, None)},
            success=None if not success else success == "true",
            id=given.get("id", ""),
            text=given.get("text", ""),
            tool=given.get("tool", ""),
            sort=sort.removeprefix("-"),
            descending=sort.startswith("-"),
            offset=max(0, int(_number(given, "offset") or 0)),
            limit=min(LONGEST_PAGE, max(1, int(_number(given, "limit") or 50))),
        )


def _number(given: Mapping[str, str], name: str) -> float | None:
    if not (text := given.get(name, "")):
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e18:
        raise UsageError(f"{name} must be a number, not {text!r}")
    return value


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the episodes that a query finds.

    Args:
        rows: episodes as plain dicts.
        total: number of episodes found.
        episodes: number of episodes in the store.
        unsearched: number of episodes whose texts are not searched yet; ask again.
        choices: values by column, with the number of episodes in the whole store.
        problems: parts that cannot be read, one line each.
        unread: number of the store's files that are not read yet; ask again.
    """

    rows: list[dict[str, Any]]
    total: int
    episodes: int
    unsearched: int
    choices: dict[str, dict[str, int]]
    problems: tuple[str, ...]
    unread: int = 0


Find = Callable[[Path, str], "np.ndarray[Any, Any]"]


class Searcher:
    """Searches the texts of conversations part by part, and remembers what it found."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, int, str, Find], np.ndarray[Any, Any]] = {}
        self._lock = threading.Lock()

    def matches(self, snapshot: Snapshot, text: str, wanted: pa.Array, find: Find) -> tuple[pa.Array, int]:
        """Find episodes in which ``find`` finds a text, for at most ``SEARCH_SECONDS``.

        Args:
            snapshot: the store's episodes.
            text: text to find.
            wanted: mask over the table; parts without a wanted episode are not read.
            find: function of a part and the text that returns whether each episode has it.

        Returns:
            A mask over the table, and the number of wanted episodes that were not searched.
        """
        numbers, rows = snapshot.table["part"].to_numpy(), snapshot.table["row"].to_numpy()
        asked = wanted.to_numpy(zero_copy_only=False)
        mask, unsearched = np.zeros(len(numbers), bool), 0
        files = {int(number): snapshot.files[number] for number in np.unique(numbers[asked])}
        keys = {number: (file, file.stat().st_mtime_ns, text, find) for number, file in files.items()}
        with self._lock:
            self._search([key for key in keys.values() if key not in self._found], time.monotonic() + SEARCH_SECONDS)
            for number, key in keys.items():
                here = numbers == number
                if key in self._found:
                    mask[here] = self._found[key][rows[here]]
                else:
                    unsearched += int((here & asked).sum())
        return pa.array(mask), unsearched

    def _search(self, keys: Sequence[tuple[Path, int, str, Find]], end: float) -> None:
        """Search parts in their order until a time; the first ones in any case."""
        if len(self._found) > 50_000:
            self._found.clear()
        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(keys), READERS):
                if start and time.monotonic() > end:
                    return
                some = keys[start : start + READERS]
                self._found |= zip(some, readers.map(lambda key: key[3](key[0], key[2]), some), strict=True)


def contains(file: Path, text: str) -> np.ndarray[Any, Any]:
    """Return for each episode of a part whether its conversation contains a text, in any case.

    Messages, actions, tool calls with their arguments, thoughts, and errors are searched, not records of the world.
    """
    with pq.ParquetFile(file) as parquet:
        paths = [parquet.schema.column(number).path for number in range(len(parquet.schema))]
        wanted = [path for path in paths if _is_text(path)]
        found = np.zeros(parquet.metadata.num_rows, bool)
        for path in wanted:
            column = parquet.read(columns=[path], use_threads=False).column(0).combine_chunks()
            found |= _rows_with(column, partial(compute.match_substring, pattern=text, ignore_case=True))
    return found


def calls(file: Path, tool: str) -> np.ndarray[Any, Any]:
    """Return for each episode of a part whether the agent called a tool of this name."""
    with pq.ParquetFile(file) as parquet:
        found = np.zeros(parquet.metadata.num_rows, bool)
        path = leaf(parquet, "turns", "action", "tool_calls", "name")
        if path is not None:
            column = parquet.read(columns=[path], use_threads=False).column(0).combine_chunks()
            found |= _rows_with(column, partial(compute.equal, tool))
    return found


def _is_text(path: str) -> bool:
    words = path.split(".")
    if words[0] in ("thoughts", "error"):
        return True
    return (words[0] in ("turns", "final_observation") and words[-1] in ("text", "arguments", "problem")) or (
        words[0] == "turns" and words[-1] == "name" and "tool_calls" in words
    )


def _rows_with(column: pa.Array, fits: Callable[[pa.Array], pa.Array]) -> np.ndarray[Any, Any]:
    """Descend through lists and structs to the strings, and carry what matches back to the rows."""
    rows, found = np.arange(len(column)), np.zeros(len(column), bool)
    while not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        if pa.types.is_struct(column.type):
            column = compute.struct_field(column, [0])
        else:
            rows = rows[compute.list_parent_indices(column).to_numpy()]
            column = compute.list_flatten(column)
    hits = compute.fill_null(fits(column), False)
    found[rows[hits.to_numpy(zero_copy_only=False)]] = True
    return found


def page(snapshot: Snapshot, query: Query, searcher: Searcher) -> Page:
    """Return the page of a query."""
    table = snapshot.table
    mask, unsearched = _mask(table, query), 0
    for wanted, find in ((query.tool, calls), (query.text, contains)):
        if wanted:
            hits, left = searcher.matches(snapshot, wanted, mask, find)
            mask, unsearched = compute.and_(mask, hits), max(unsearched, left)
    found = compute.indices_nonzero(mask)
    if query.sort:
        order = "descending" if query.descending else "ascending"
        keys = table.select([query.sort]).take(found)
        found = found.take(compute.sort_indices(keys, sort_keys=[(query.sort, order)]))
    rows = table.select(SHOWN).take(found[query.offset : query.offset + query.limit]).to_pylist()
    shown = [{name: text_in(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]
    return Page(shown, len(found), table.num_rows, unsearched, snapshot.choices, snapshot.problems, snapshot.unread)


def _mask(table: pa.Table, query: Query) -> pa.Array:
    masks = [pa.array(np.ones(table.num_rows, bool))]
    for name, values in query.choices.items():
        masks.append(compute.is_in(table[name].cast(pa.string()), value_set=pa.array(values, pa.string())))
    for name, (low, high) in query.ranges.items():
        if low is not None:
            masks.append(compute.greater_equal(table[name], low))
        if high is not None:
            masks.append(compute.less_equal(table[name], high))
    if query.success is not None:
        masks.append(compute.equal(table["success"], query.success))
    if query.id:
        masks.append(
            compute.or_(*(compute.match_substring(table[each], query.id) for each in ("episode_id", "group_id")))
        )
    whole = reduce(compute.and_, (compute.fill_null(mask, False) for mask in masks))
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
