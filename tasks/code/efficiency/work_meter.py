"""Counts work while woven source runs (see ``weaving``): copied into the sandbox, so it imports nothing of ours.

The unit is an eighth of a statement. A statement costs 8, a call of a function written in Python nothing beyond its
own statements, and work done in C costs 1 for each element that it may touch: sorting n elements n·log2(n), searching
a list its length, a slice what it copies, a large number its 64-bit words. An element in C is so priced at an eighth of
a statement, which is still dearer than it is: work in C is never free, and never the way around a better algorithm.
"""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import itertools
import operator
from typing import Any

STATEMENT = 8
WORK = [0]
"""The units so far; woven source adds to it."""

_type, _len, _isinstance, _next = type, len, isinstance, next
_WORDS = 64
_SIZED = (list, tuple, str, bytes, bytearray, set, frozenset, dict, range, collections.deque)
_VIEWS: tuple[Any, ...] = (_type({}.keys()), _type({}.values()), _type({}.items()))
_CONSTANT = frozenset(
    {abs, callable, chr, divmod, hash, id, isinstance, issubclass, iter, len, next, ord, pow, repr, range, enumerate}
    | {zip, reversed, bool, int, float, super, object, property, staticmethod, classmethod, slice, type, print}
    | {functools.partial, functools.lru_cache, functools.cmp_to_key}
    | {itertools.count, itertools.repeat}
)
"""Callables that do the same little work whatever they are given, or whose results are counted where they are used."""
_LITTLE = frozenset(
    {"append", "appendleft", "popleft", "add", "discard", "get", "setdefault", "items", "keys", "values", "popitem"}
    | {"bit_length", "bit_count", "is_integer", "move_to_end", "as_integer_ratio", "cache_clear"}
)
"""Methods of built-in types of which the same holds."""
_ARGUMENTS_ONLY = frozenset(["extend", "extendleft", "update", "remove_all", "difference_update"])
"""Methods that touch what they are given, and not the whole of what they belong to."""
_BISECTING = frozenset([heapq.heappush, heapq.heappop, heapq.heapreplace, heapq.heappushpop])
_BISECTING |= frozenset([bisect.bisect, bisect.bisect_left, bisect.bisect_right])
_SORTING = frozenset([sorted, heapq.nlargest, heapq.nsmallest])
_HIGHER = frozenset([map, filter, functools.reduce, itertools.starmap, itertools.accumulate, itertools.groupby])
_HIGHER |= frozenset([sorted, min, max, heapq.nlargest, heapq.nsmallest, heapq.merge])
"""They call what they are given."""


def tick() -> bool:
    """One round of a comprehension, or one call of a lambda."""
    WORK[0] += STATEMENT
    return True


class _Bound:
    def method(self) -> None:
        """Has the type of bound methods."""


_WOVEN = frozenset([_type(tick), _type(_Bound().method), _type(functools.lru_cache(tick))])
"""Types of what was written in Python, and so counts its own work; a class can be called what these are called."""


def spent(result: Any) -> Any:
    """A value that was made in C, paid for by its size."""
    WORK[0] += size(result)
    return result


def searched(container: Any) -> Any:
    """What something is looked for in: a list by its length, a set or dict not at all."""
    kind = _type(container)
    if kind in (set, frozenset, dict, range) or kind in _VIEWS[::2]:
        return container
    if hasattr(kind, "__next__"):
        return counted(container)
    WORK[0] += size(container)
    return container


def operated(function: Any, left: Any, right: Any) -> Any:
    """The value of an operator, paid for by the sizes of its operands and its value."""
    if _type(left) is int and _type(right) is int:
        result = function(left, right)
        if -(1 << 512) < result < 1 << 512 and -(1 << 512) < left < 1 << 512:
            return result
        WORK[0] += size(left) + size(right) + size(result)
        return result
    result = function(left, right)
    WORK[0] += size(left) + size(right) + size(result)
    return result


def remade(value: Any) -> None:
    """What an augmented assignment has left: numbers and texts are made anew by it, containers are not."""
    if _type(value) in (int, str, bytes, tuple):
        WORK[0] += size(value)


def moved(container: Any) -> Any:
    """What a part is taken out of, or replaced in: all that stands behind it moves."""
    if _type(container) is list:
        WORK[0] += _len(container)
    return container


def unpacked(items: Any) -> Any:
    """What stands behind a star."""
    return given(items) if hasattr(_type(items), "__next__") else spent(items)


def size(value: Any) -> int:
    """How many elements a value has; of a large number, how many words."""
    kind = _type(value)
    if kind is int:
        return int(value.bit_length() // _WORDS)
    if _isinstance(value, _SIZED) or kind in _VIEWS:
        return int(_len(value))
    return 0


def counted(iterator: Any) -> Any:
    """The same elements, each paid for when it is taken."""
    for item in iterator:
        WORK[0] += 1
        yield item


def given(argument: Any) -> Any:
    """An argument of work in C: an iterator is counted as it is used."""
    return counted(argument) if hasattr(_type(argument), "__next__") else argument


def callee(function: Any) -> Any:
    """What is called: itself if it counts its own work, otherwise something that pays for it."""
    kind = _type(function)
    if kind in _WOVEN:
        return function
    try:
        if function in _CONSTANT:
            WORK[0] += 1
            return function
    except TypeError:  # it cannot be hashed
        return function
    if kind is _type and function.__module__ not in ("builtins", "collections", "itertools", "functools"):
        return function  # a class of the submitted code
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if owner is not None and _type(owner).__name__ != "module":
        if name in _LITTLE or (name in ("pop", "remove") and _isinstance(owner, (set, dict))):
            WORK[0] += 1
            return function
        return functools.partial(_paid, function, None if name in _ARGUMENTS_ONLY else owner)
    return functools.partial(_paid, function, None)


def _paid(function: Any, owner: Any, *arguments: Any, **named: Any) -> Any:
    name = getattr(function, "__name__", "")
    known = function if owner is None and not _isinstance(getattr(function, "__self__", None), _SIZED) else None
    if known in _BISECTING:
        WORK[0] += 1 + max(map(size, arguments), default=0).bit_length()
        return function(*arguments, **named)
    if name == "pop" and not arguments:
        WORK[0] += 1
        return function()
    if known in _HIGHER or name == "sort":
        arguments = tuple([callee(each) if callable(each) else each for each in arguments])
        named = {key: callee(each) if callable(each) else each for key, each in named.items()}
    WORK[0] += 1 + sum(map(size, arguments)) + (0 if owner is None else size(owner))
    result = function(*[given(each) for each in arguments], **named)
    ordered = size(result) if known in _SORTING else size(owner) if name == "sort" else 0
    WORK[0] += ordered * ordered.bit_length() + size(result)
    return result


OPERATORS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "FloorDiv": operator.floordiv,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
}
"""Operators by the name of their syntax node."""
