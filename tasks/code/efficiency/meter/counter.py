"""The counter, the price of values, and refusals. The files of this folder are copied into the sandbox: stdlib only.

The unit is an eighth of a statement. An operation costs at least one unit, and work done in C costs one for each
element, character or 64-bit word that it may touch. See ``docs/code.md`` for what is counted and what is refused.
"""

from __future__ import annotations

import collections
import functools
import gc
import sys
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Any, NoReturn

__work__ = True
"""Marks functions of the meter as counting their own work, as it does in woven source."""
COUNTER = "__work__"
STATEMENT = 8
WORK = [0]
"""The units so far; woven source adds to it."""
REFUSED: list[str] = []
"""Why operations were refused; the reasons outlive a handler that catches the error."""
SUBMITTED: set[type] = set()
"""Classes that woven source defines; their methods count their own work."""
MOST = 1 << 22
"""Cap on the weight of one value, above every limit: shared nesting weighs exponentially more than it holds."""
DEEPEST = 10_000

TEXTS = frozenset({str, bytes})
SEQUENCES = frozenset({list, tuple, collections.deque})
SETS = frozenset({set, frozenset})
DICTS = frozenset({dict, collections.defaultdict, collections.OrderedDict, collections.Counter})
KEY_VIEWS: frozenset[Any] = frozenset({type({}.keys()), type(collections.OrderedDict().keys())})
ITEM_VIEWS: frozenset[Any] = frozenset({type({}.items()), type(collections.OrderedDict().items())})
VALUE_VIEWS: frozenset[Any] = frozenset({type({}.values()), type(collections.OrderedDict().values())})
VIEWS = KEY_VIEWS | ITEM_VIEWS | VALUE_VIEWS
TABLES = SETS | DICTS | VIEWS
NESTED = SEQUENCES | TABLES
SIZED = NESTED | TEXTS | {range}
_arguments: Any = vars(BaseException)["args"].__get__
HEAVY = NESTED | {slice, functools.partial}
NUMBERS = frozenset({int, float, bool, complex})
LIGHT = frozenset({float, bool, complex, type(None)})


class RefusedError(Exception):
    """Raised for an operation whose work cannot be counted."""


def refuse(what: str, instead: str) -> NoReturn:
    """Note and raise a refusal.

    Args:
        what: the operation.
        instead: advice on what to use in its place.

    Raises:
        RefusedError: always.
    """
    text = f"the work of {what} is not counted; {instead}"
    if len(REFUSED) < 5 and text not in REFUSED:
        REFUSED.append(text)
    raise RefusedError(text)


def name_of(value: Any) -> str:
    """Return how to name a type or function in a refusal."""
    return str(getattr(value, "__qualname__", type(value).__name__))[:80]


def charge(units: int) -> None:
    """Add to the counter, which only grows: what a rule computes may depend on values of the submission."""
    if type(units) is not int or units < 0:
        refuse("an operation on numbers of that kind", "use small integers that are not negative")
    WORK[0] += units


def tick(units: int = STATEMENT) -> bool:
    """Charge one round of a comprehension, or one call of a lambda."""
    WORK[0] += units
    return True


def length(container: Any) -> int:
    """Return the slots of a built-in container that iterating over it visits.

    A set or dict keeps the slots of removed elements: iterating over the only element left may visit thousands.
    """
    kind = type(container)
    if kind not in TABLES:
        count: int = len(container)
        return count
    held = gc.get_referents(container) if kind in VIEWS else [container]
    return max(len(container), sum(sys.getsizeof(table) for table in held) >> 6)


def size(value: Any) -> int:
    """Return the elements of a value, or the words of a number."""
    kind = type(value)
    if kind is int:
        return int(value.bit_length() >> 6)
    return length(value) if kind in SIZED else 0


def weight(value: Any, squared: bool = False) -> int:
    """Return how much of a value hashing, comparing or showing it may touch, down to its innermost parts.

    Args:
        value: anything; an instance of a submitted class weighs 1, since its methods count themselves.
        squared: charge large numbers by the square of their words, as converting them to digits does.
    """
    kind = type(value)
    if kind is int:
        words: int = value.bit_length() >> 6
        return 1 + (words * words if squared else words)
    if kind in TEXTS:
        return 1 + len(value)
    if kind not in HEAVY and not issubclass(kind, BaseException):
        return 1
    total, level = 0, [value]
    for _ in range(DEEPEST):
        kinds = set(map(type, level))
        total += len(level) + sum(_own(kind, _of(level, kind, kinds), squared) for kind in kinds)
        deeper = [kind for kind in kinds if kind in HEAVY or issubclass(kind, BaseException)]
        if not deeper:
            return min(total, MOST)
        if total > MOST:
            break
        level = [part for kind in deeper for part in _parts(kind, _of(level, kind, kinds))]
    return MOST


def _of(level: list[Any], kind: type, kinds: set[type]) -> list[Any]:
    return level if len(kinds) == 1 else [value for value in level if type(value) is kind]


def _own(kind: type, values: list[Any], squared: bool) -> int:
    """Return what values of a kind weigh themselves; their parts follow, and containers announce how many."""
    if kind is int:
        bits = list(map(int.bit_length, values))
        return sum((one >> 6) ** 2 for one in bits) if squared else sum(one >> 6 for one in bits if one > 63)
    if kind in TABLES:
        return sum(max(0, length(value) - len(value)) + MOST * (len(value) > MOST) for value in values)
    if kind in SIZED and kind is not range:
        count = sum(map(len, values))
        return count if kind in TEXTS else MOST * (count > MOST)
    return 0


def _parts(kind: type, values: list[Any]) -> Iterator[Any]:
    if kind in DICTS:
        return chain(chain.from_iterable(values), chain.from_iterable(value.values() for value in values))
    if kind is slice:
        return chain.from_iterable((value.start, value.stop, value.step) for value in values)
    if kind is functools.partial:
        return chain.from_iterable((*value.args, *value.keywords.values()) for value in values)
    if kind in NESTED:
        return chain.from_iterable(values)
    return chain.from_iterable(_arguments(value) for value in values)


def hashes(items: Any) -> int:
    """Return what hashing the items of a built-in container takes; of a dict, its keys."""
    kinds = set(map(type, items))
    return length(items) if kinds <= LIGHT else length(items) - len(items) + weight(list(items))


def key(value: Any) -> Any:
    """Return what is hashed, paid for by its weight."""
    charge(weight(value))
    return value


def spent(value: Any) -> Any:
    """Return a value that was made in C, paid for by its size."""
    charge(size(value))
    return value


def looped(items: Any) -> Any:
    """Return what a loop runs over; a set or dict is paid for by the slots that it keeps empty."""
    if type(items) in TABLES:
        charge(length(items) - len(items))
    return items


def counted(items: Iterable[Any]) -> Iterator[Any]:
    """Iterate over items and pay for each when it is taken."""
    for item in items:
        WORK[0] += 1
        yield item


def delegated(items: Iterable[Any]) -> Generator[Any, None, Any]:
    """Do the same for ``yield from``, whose value is what a generator returns."""
    iterator = iter(looped(items))
    while True:
        try:
            item = next(iterator)
        except StopIteration as end:
            return end.value
        WORK[0] += 1
        yield item


def by_length(items: Iterable[Any]) -> Iterator[Any]:
    """Iterate over tuples that are made for this, or copied from, and pay for each by its length."""
    for item in items:
        charge(1 + size(item))
        yield item


def given(items: Any) -> Any:
    """Return what work in C consumes whole: a built-in container, paid for, or an iterator that counts."""
    kind = type(items)
    if kind in SIZED:
        charge(length(items))
        return items
    return counted(iter(items)) if hasattr(kind, "__iter__") or hasattr(kind, "__getitem__") else items


def lazy(items: Any) -> Any:
    """Return what an iterator takes its items from, one for one: its consumer pays unless it is an iterator itself."""
    if type(items) in SIZED:
        return looped(items)
    return counted(iter(items)) if hasattr(type(items), "__iter__") or hasattr(type(items), "__getitem__") else items


def hashed(items: Any) -> Any:
    """Return what a set or dict takes its keys from, paid for by their weight."""
    if type(items) in SIZED:
        charge(hashes(items))
        return items
    return map(key, iter(items))


def listed(items: Any) -> Any:
    """Return items as a built-in container, paid for."""
    return given(items) if type(items) in SIZED else list(counted(iter(items)))
