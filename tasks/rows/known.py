"""Rows whose id is never shown: deleting one and inserting it again changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .database import Change


def put_back(changes: Sequence[Change], keys: Mapping[str, tuple[str, ...]]) -> tuple[Change, ...]:
    """Merge the removal and the return of such a row into a change of one row, or into none.

    Args:
        changes: changes of a world, in order.
        keys: columns that identify a row for a user, by table.
    """
    gone = {name: one for one in changes if one.kind == "delete" and (name := _known_by(one, keys)) is not None}
    back = {name: one for one in changes if one.kind == "insert" and (name := _known_by(one, keys)) in gone}
    if not back:
        return tuple(changes)
    same = [_again(gone[name], one) for name, one in back.items()]
    spent = {(one.table, one.id) for one in (*back.values(), *(gone[name] for name in back))}
    left = [one for one in changes if (one.table, one.id) not in spent]
    return tuple(sorted((*left, *(one for one in same if one.columns)), key=lambda one: (one.table, one.id)))


def _known_by(change: Change, keys: Mapping[str, tuple[str, ...]]) -> tuple[Any, ...] | None:
    """Return the table and key columns of a row, if its id is never shown."""
    if change.table not in keys:
        return None
    row = change.before or change.after or {}
    return (change.table, *(row[column] for column in keys[change.table]))


def _again(gone: Change, back: Change) -> Change:
    before, after = gone.before or {}, back.after or {}
    kept = {name: before[name] for name in ("id", "created_at") if name in before}
    return Change(gone.table, gone.id, before, {**after, **kept})
