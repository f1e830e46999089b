"""Filter, search and sort episodes: the query of a URL, applied to the table of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from ..errors import UsageError
from ..rollouts.columns import text_in
from .episode_index import CHOICES, PLAIN, TASK, Snapshot
from .text_search.part_texts import text_pattern, tool_pattern
from .text_search.searcher import Searcher

SORTED = (*PLAIN, *TASK, "turns", "step")
"""Columns by which episodes can be sorted."""
RANGES = ("total_reward", "turns", "level", "step", "seconds")
"""Numbers that a filter may bound with ``_min`` and ``_max``."""
SHOWN = (*PLAIN, *TASK, "turns", "parent", "step")
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


def page(snapshot: Snapshot, query: Query, searcher: Searcher) -> Page:
    """Return the page of a query."""
    table = snapshot.table
    mask, unsearched = _mask(table, query), 0
    for wanted, pattern in ((query.tool, tool_pattern), (query.text, text_pattern)):
        if wanted:
            hits, left = searcher.matches(snapshot, pattern(wanted), mask)
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
