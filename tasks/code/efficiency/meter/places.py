"""Subscripts, unpacking and text: the rest of the syntax that may do more work than it shows."""

from __future__ import annotations

import collections
import operator
from collections.abc import Iterator
from types import GenericAlias
from typing import Any

from .counter import (
    DICTS,
    SIZED,
    SUBMITTED,
    WORK,
    charge,
    given,
    hashes,
    length,
    looped,
    refuse,
    size,
    weight,
)

__work__ = True
MOST_TYPES = 8
"""Types in brackets behind another."""
_INDEXED = frozenset({list, tuple, str, bytes, range})


def item(container: Any, key: Any) -> Any:
    """Return ``container[key]``."""
    kind = type(container)
    if kind in _INDEXED:
        WORK[0] += 1
        result = container[key]
        if type(key) is not int:
            charge(size(result))  # of a slice; an item is small or shared
        return result
    if kind in DICTS:
        charge(weight(key))
    elif kind is collections.deque:
        charge(_hops(container, key))
    elif kind is type or kind is GenericAlias:
        parts = key if type(key) is tuple else (key,)
        if len(parts) > MOST_TYPES or any(type(part) not in (type, type(None), type(...)) for part in parts):
            refuse("types with anything but types in brackets", "leave the type out")
        charge(len(parts))
    elif kind not in SUBMITTED and hasattr(kind, "__getitem__"):
        refuse(f"subscripts of {kind.__name__}", "use a list or a dict")
    return container[key]


def _hops(items: Any, key: Any) -> int:
    """Return the blocks of a deque that are passed on the way to an item."""
    place = operator.index(key) % max(len(items), 1)
    return 1 + min(place, len(items) - place) // 8


class Place:
    """A list, dict or deque as the target of a slice assignment, a deletion, or an assignment to a deque's item."""

    __slots__ = ("container",)

    def __init__(self, container: Any) -> None:
        self.container = container

    def __setitem__(self, key: Any, value: Any) -> None:
        container = self.container
        if type(container) is list and type(key) is slice:
            charge(length(container))
            container[key] = given(value)
        elif type(container) is collections.deque:
            charge(_hops(container, key))
            container[key] = value
        else:
            store(value, container, key)

    def __delitem__(self, key: Any) -> None:
        container = self.container
        if type(container) in DICTS:
            charge(weight(key))
        elif type(container) is list and type(key) is int:
            charge(1 + max(0, -key if key < 0 else len(container) - key))
        else:
            charge(1 + size(container))
        del container[key]


def place(container: Any) -> Any:
    """Return what a part is replaced in or deleted from."""
    kind = type(container)
    if kind in (list, collections.deque) or kind in DICTS:
        return Place(container)
    if kind not in SUBMITTED and hasattr(kind, "__setitem__"):
        refuse(f"assignments to parts of {kind.__name__}", "use a list or a dict")
    return container


def store(value: Any, container: Any, key: Any) -> None:
    """Do ``container[key] = value``, with its operands in the order of their evaluation."""
    kind = type(container)
    if kind is list and type(key) is int:
        WORK[0] += 1
        container[key] = value
    elif kind in DICTS:
        charge(weight(key))
        container[key] = value
    elif kind is list and type(key) is not slice:
        container[operator.index(key)] = value
    else:
        place(container)[key] = value


def unpacked(items: Any, times: int = 1) -> Any:
    """Return what a star copies, one or several times."""
    items = given(items)
    charge((times - 1) * size(items))
    return items


def each_unpacked(rows: Any) -> Iterator[Any]:
    """Iterate over rows that a target with a star takes apart."""
    for row in rows:
        WORK[0] += 1
        yield given(row)


def taken_apart(row: Any) -> Any:
    """Return what is assigned to several names, two levels deep: empty slots of sets and dicts are visited, too."""
    if type(row) in (tuple, list):
        for each in row:
            looped(each)
        return row
    return looped(row) if type(row) in SIZED or not hasattr(type(row), "__next__") else map(looped, row)


def each_taken_apart(rows: Any) -> Any:
    """Return rows of a loop with several names in each round."""
    return map(taken_apart, looped(rows)) if hasattr(type(rows), "__iter__") else rows


def spread(mapping: Any) -> Any:
    """Return what two stars copy."""
    if type(mapping) not in DICTS:
        refuse(f"** on {type(mapping).__name__}", "use a dict")
    charge(hashes(mapping))
    return mapping


def shown(value: Any, conversion: str = "s") -> str:
    """Return a value as text, paid for before and after; ``conversion`` is ``s``, ``r`` or ``a``."""
    charge(weight(value, True))
    text = str(value) if conversion == "s" else repr(value) if conversion == "r" else ascii(value)
    charge(len(text))
    return text


def formatted(value: Any, conversion: str, specification: str) -> str:
    """Return one field of an f-string."""
    if conversion:
        value = shown(value, conversion)
    else:
        charge(weight(value, True))
    charge(len(specification))
    text = format(value, specification)
    charge(len(text))
    return text
