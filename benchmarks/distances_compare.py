"""Compare what two distances returned, value by value, and say where they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from turnwise.rollouts.store import parts

TIMES = ("seconds", "seconds_policy", "seconds_env")
"""Fields that differ between any two runs."""
NAMED = ("episode_id", "group_id", "env_id")
"""Fields that contain the id of the environment, which is another one on a server."""


def rows_of(folder: Path, *, named: bool = True) -> list[dict[str, Any]]:
    """Return the stored rows of a store in the order of their tasks, without times.

    Args:
        folder: folder of the store.
        named: whether to keep the fields that contain the id of the environment.
    """
    left_out = TIMES if named else TIMES + NAMED
    rows = [row for part in parts(folder) for row in pq.read_table(part).to_pylist()]
    return [_without(row, left_out) for row in sorted(rows, key=lambda row: json.dumps(row["task"]))]


def differences(
    family: str, place: str, expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield one line for each episode that differs, naming family, seed, turn and field.

    Args:
        family: id of the environment.
        place: name of the distance of ``found``.
        expected: rows of the first distance, each with a ``task`` and its ``turns``.
        found: rows of the other distance.
    """
    if len(expected) != len(found):
        yield f"{family}: {len(found)} episodes {place}, {len(expected)} in process"
    for one, other in zip(expected, found, strict=False):
        if (where := _first(one, other)) is not None:
            path, left, right = where
            head, turn = path, ""
            if path[0] == "turns" and len(path) > 1:
                head, turn = path[2:], f", turn {path[1]}"
            field = ".".join(map(str, head)) or "existence"
            task = one["task"]
            yield (
                f"{family} ({task['split']}, level {task['level']}), seed {task['seed']}{turn}, field {field}: "
                f"{_short(right)} {place}, {_short(left)} in process"
            )


def _first(one: Any, other: Any, path: tuple[Any, ...] = ()) -> tuple[tuple[Any, ...], Any, Any] | None:
    """Return the first place where two values differ, as a path and both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in (*one, *(key for key in other if key not in one)):
            if key not in one or key not in other:
                return (*path, key), one.get(key, "nothing"), other.get(key, "nothing")
            if (found := _first(one[key], other[key], (*path, key))) is not None:
                return found
        return None if list(one) == list(other) else (path, list(one), list(other))
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            if (found := _first(left, right, (*path, index))) is not None:
                return found
        if len(one) != len(other):
            least = min(len(one), len(other))
            return (*path, least), (one[least:] or ["nothing"])[0], (other[least:] or ["nothing"])[0]
        return None
    # By text: 1 is not 1.0 or True, 0.0 is not -0.0, and NaN is NaN.
    return None if type(one) is type(other) and repr(one) == repr(other) else (path, one, other)


def _without(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(each, names) for key, each in value.items() if key not in names}
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
