"""Rules of ``itertools`` and ``heapq``.

An iterator that gives one small item for each that it takes costs its consumer one unit. What skips items counts those
that it takes, what gives long tuples counts their lengths, and what takes from another iterator pays for each item.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from .builtin_rules import ordered, small
from .calls import FREE, FUNCTIONS, callback
from .counter import WORK, by_length, charge, counted, given, lazy, looped, refuse, weight
from .operators import COMPARISONS, OPERATORS

__work__ = True
_less = COMPARISONS["Lt"]


def linked(*items: Any) -> Any:
    """Chain several iterables."""
    charge(1 + len(items))
    return itertools.chain(*map(lazy, items))


def linked_from(items: Any) -> Any:
    """Chain the iterables of an iterable."""
    return itertools.chain.from_iterable(map(lazy, counted(iter(items))))


def multiplied(*items: Any, repeat: int = 1) -> Any:
    """Return the product of pools."""
    pools = [tuple(given(pool)) for pool in items]
    charge(1 + sum(map(len, pools)) * max(repeat, 0))
    return by_length(itertools.product(*pools, repeat=repeat))


def chosen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of permutations or combinations."""
    return lambda items, *r, **named: by_length(function(tuple(given(items)), *r, **named))


def accumulated(items: Any, func: Any = None, *, initial: Any = None) -> Any:
    """Accumulate items."""
    WORK[0] += 1
    function = OPERATORS["Add"] if func is None else callback(func)
    return itertools.accumulate(lazy(items), function, initial=initial)


def starred(function: Any, rows: Any) -> Any:
    """Call a function with the items of each row."""
    return itertools.starmap(callback(function), map(_row, counted(iter(looped(rows)))))


def _row(row: Any) -> Any:
    if type(row) not in (tuple, list):
        refuse("starmap() over rows that are neither tuples nor lists", "make them tuples")
    charge(len(row))
    return row


def tested_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of an iterator that asks a predicate."""
    return lambda predicate, items: function(
        None if predicate is None else callback(predicate), counted(iter(looped(items)))
    )


def grouped(items: Any, key: Any = None) -> Any:
    """Group neighbors; their keys are compared."""
    function = None if key is None else callback(key)

    def keyed(item: Any) -> Any:
        value = item if function is None else function(item)
        charge(weight(value))
        return value

    return itertools.groupby(counted(iter(looped(items))), keyed)


def counting(start: Any = 0, step: Any = 1) -> Any:
    """Count without end."""
    WORK[0] += 1
    small(start, step)
    return itertools.count(start, step)


def forked(items: Any, n: int = 2) -> Any:
    """Return independent iterators."""
    charge(1 + n)
    return itertools.tee(lazy(items), n)


def taking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of an iterator over one iterable that may skip or hold items."""
    return lambda items, *rest, **named: function(counted(iter(looped(items))), *rest, **named)


def picked(items: Any, selectors: Any) -> Any:
    """Filter items by selectors."""
    return itertools.compress(counted(iter(looped(items))), counted(iter(looped(selectors))))


def zipped_longest(*items: Any, **named: Any) -> Any:
    """Zip columns up to the longest."""
    charge(1 + len(items))
    rows = itertools.zip_longest(*[lazy(column) for column in items], **named)
    return rows if len(items) < 4 else by_length(rows)


def push(heap: list[Any], item: Any) -> None:
    """Add an item to a heap."""
    _check(heap)
    heap.append(item)
    _rise(heap, len(heap) - 1)


def pop(heap: list[Any]) -> Any:
    """Take the least item off a heap."""
    _check(heap)
    last = heap.pop()
    return exchange(heap, last) if heap else last


def exchange(heap: list[Any], item: Any) -> Any:
    """Take the least item off a heap, then add another."""
    _check(heap)
    least, heap[0] = heap[0], item
    _sink(heap, 0)
    return least


def push_pop(heap: list[Any], item: Any) -> Any:
    """Add an item to a heap, then take the least off it."""
    _check(heap)
    return exchange(heap, item) if heap and _less(heap[0], item) else item


def heapify(heap: list[Any]) -> None:
    """Make a heap of a list."""
    _check(heap)
    for place in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, place)


def _check(heap: Any) -> None:
    WORK[0] += 1
    if type(heap) is not list:
        raise TypeError(f"heap argument must be a list, not {type(heap).__name__}")


def _rise(heap: list[Any], place: int) -> None:
    item = heap[place]
    while place:
        parent = (place - 1) // 2
        if not _less(item, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


def _sink(heap: list[Any], place: int) -> None:
    """Move an item down as far as there are items, and up again: most belong near the bottom."""
    item, end, top = heap[place], len(heap), place
    while (child := 2 * place + 1) < end:
        if child + 1 < end and not _less(heap[child], heap[child + 1]):
            child += 1
        heap[place] = heap[child]
        place = child
    while place > top and _less(item, heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = item


def merged(*items: Any, key: Any = None, reverse: bool = False) -> Iterator[Any]:
    """Merge sorted iterables."""
    function = None if key is None else callback(key)
    heap: list[Any] = []
    for index, one in enumerate(items):
        _next_of(heap, iter(counted(looped(one))), index, function, reverse)
    while heap:
        head = pop(heap)
        yield head.item
        _next_of(heap, head.rest, head.index, function, reverse)


class _Head:
    """The first item of an iterable that is merged."""

    __slots__ = ("index", "item", "key", "rest", "reverse")

    def __init__(self, item: Any, key: Any, index: int, rest: Iterator[Any], reverse: bool) -> None:
        self.item, self.key, self.index, self.rest, self.reverse = item, key, index, rest, reverse

    def __lt__(self, other: _Head) -> bool:
        one, two = (other, self) if self.reverse else (self, other)
        if _less(one.key, two.key):
            return True
        return not _less(two.key, one.key) and self.index < other.index


def _next_of(heap: list[Any], rest: Iterator[Any], index: int, function: Any, reverse: bool) -> None:
    for item in rest:
        push(heap, _Head(item, item if function is None else function(item), index, rest, reverse))
        return


def best(reverse: bool) -> Callable[..., list[Any]]:
    """Return the rule of ``nlargest`` or ``nsmallest``, which sorting gives."""
    return lambda n, items, key=None: ordered(items, key=key, reverse=reverse)[: max(n, 0)]


FUNCTIONS |= {
    itertools.chain: linked,
    itertools.chain.from_iterable: linked_from,
    itertools.product: multiplied,
    itertools.permutations: chosen(itertools.permutations),
    itertools.combinations: chosen(itertools.combinations),
    itertools.combinations_with_replacement: chosen(itertools.combinations_with_replacement),
    itertools.accumulate: accumulated,
    itertools.starmap: starred,
    itertools.takewhile: tested_by(itertools.takewhile),
    itertools.dropwhile: tested_by(itertools.dropwhile),
    itertools.filterfalse: tested_by(itertools.filterfalse),
    itertools.groupby: grouped,
    itertools.count: counting,
    itertools.repeat: FREE,
    itertools.cycle: lambda items: itertools.cycle(lazy(items)),
    itertools.tee: forked,
    itertools.islice: taking(itertools.islice),
    itertools.compress: picked,
    itertools.zip_longest: zipped_longest,
    **{function: taking(function) for name in ("pairwise", "batched") if (function := getattr(itertools, name, None))},
    heapq.heappush: push,
    heapq.heappop: pop,
    heapq.heapreplace: exchange,
    heapq.heappushpop: push_pop,
    heapq.heapify: heapify,
    heapq.merge: merged,
    heapq.nlargest: best(True),
    heapq.nsmallest: best(False),
}
