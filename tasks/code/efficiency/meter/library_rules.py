"""Rules of the modules that submitted source may import, but for iterators and heaps."""

from __future__ import annotations

import bisect
import collections
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from .builtin_rules import pairs, plain
from .calls import FREE, FUNCTIONS, callback, callee
from .counter import DICTS, NUMBERS, SUBMITTED, WORK, charge, given, hashed, lazy, listed, refuse, size, weight
from .operators import FROM_OPERATOR, OPERATORS, PYTHON, tested
from .places import item, place, store

__work__ = True
FACTORIES = frozenset({list, dict, set, int, float, bool, str, tuple, collections.deque, collections.Counter})
"""Types that make little when they are called without arguments."""


def reduced(function: Any, items: Any, *start: Any) -> Any:
    """Reduce items with a function."""
    return functools.reduce(callback(function), lazy(items), *start)


def comparing(function: Any) -> Any:
    """Return keys that compare with a function."""
    return functools.cmp_to_key(callback(function))


def product(items: Any, *, start: Any = 1) -> Any:
    """Multiply items."""
    items = listed(items)
    if set(map(type, items)) <= NUMBERS - {int, bool}:
        return math.prod(items, start=start)
    for one in items:
        start = OPERATORS["Mult"](start, one)
    return start


def squared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a function of integers that takes the square of their words."""

    def rule(*numbers: Any) -> Any:
        charge(1 + sum(map(weight, numbers)) + sum(map(size, numbers)) ** 2)
        return function(*numbers)

    return rule


def factors(function: Callable[..., int]) -> Callable[..., Any]:
    """Return the rule of a function that multiplies as many numbers as its least argument."""

    def rule(*numbers: Any) -> Any:
        steps = min((number for number in numbers if type(number) is int and number > 0), default=0)
        charge(1 + min(steps, 1 << 30))
        result = function(*numbers)
        charge(steps * size(result))
        return result

    return rule


def floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a function of items that become floats."""
    return lambda *items: function(*map(given, items))


def halved(function: Callable[..., Any], moves: bool = False) -> Callable[..., Any]:
    """Return the rule of a function of ``bisect``."""

    def rule(items: Any, value: Any, *ends: Any, key: Any = None, **named: Any) -> Any:
        kind = type(items)
        if kind not in (list, tuple, range, str) and kind not in SUBMITTED:
            refuse(f"bisecting a {kind.__name__}", "use a list")
        charge(1 + size(items).bit_length() * weight(value) + (size(items) if moves else 0))
        if key is not None:
            named["key"] = callback(key)
        return function(items, value, *ends, **named)

    return rule


def getter(*keys: Any) -> Callable[[Any], Any]:
    """Return a function that takes one or more items."""
    charge(len(keys))
    if len(keys) == 1:
        return lambda container: item(container, keys[0])
    return lambda container: tuple([item(container, key) for key in keys])


def occurrences(items: Any, value: Any) -> int:
    """Count a value."""
    return sum(1 for one in given(items) if tested(one, value))


def position(items: Any, value: Any) -> Any:
    """Find a value."""
    return next((index for index, one in enumerate(given(items)) if tested(one, value)), None)


def first_position(items: Any, value: Any) -> int:
    """Find a value, or raise ValueError."""
    found = position(items, value)
    if found is None:
        raise ValueError("sequence.index(x): x not in sequence")
    return int(found)


def removed(container: Any, key: Any) -> None:
    """Delete an item."""
    del place(container)[key]


def queue(items: Any = (), *most: Any, **named: Any) -> Any:
    """Make a deque."""
    return collections.deque(given(items), *most, **named)


def ordered_dict(*items: Any, **named: Any) -> Any:
    """Make an OrderedDict."""
    charge(1 + PYTHON * len(named))
    return collections.OrderedDict(*map(pairs, items), **named)


def defaulting(factory: Any = None, *items: Any, **named: Any) -> Any:
    """Make a defaultdict."""
    charge(1 + len(named))
    if factory is not None and not (type(factory) is type and factory in FACTORIES):
        factory = callback(factory)
    return collections.defaultdict(factory, *map(pairs, items), **named)


def counter_items(items: Any) -> Any:
    """Return what a Counter counts, paid for."""
    charge(PYTHON * size(items) if type(items) in DICTS else size(items))
    return hashed(items)


def tallied(*items: Any, **named: Any) -> Any:
    """Make a Counter."""
    charge(PYTHON * (1 + len(named)))
    return collections.Counter(*map(counter_items, items), **named)


def truth(value: Any) -> bool:
    """Return whether a value is true."""
    WORK[0] += 1
    return bool(value)


_PLAIN = """
    sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow
    fmod modf frexp ldexp fabs floor ceil trunc copysign isnan isinf isfinite isclose degrees radians hypot remainder
    erf erfc gamma lgamma nextafter ulp
"""
FUNCTIONS |= {getattr(math, name): plain(getattr(math, name)) for name in _PLAIN.split() if hasattr(math, name)}
FUNCTIONS |= {function: squared(function) for function in (math.gcd, math.lcm, math.isqrt)}
FUNCTIONS |= {function: factors(function) for function in (math.comb, math.perm, math.factorial)}
FUNCTIONS |= {function: floats(function) for function in (math.fsum, math.dist)}
FUNCTIONS |= {function: halved(function) for function in (bisect.bisect_left, bisect.bisect_right)}
FUNCTIONS |= {function: halved(function, True) for function in (bisect.insort_left, bisect.insort_right)}
FUNCTIONS |= FROM_OPERATOR
FUNCTIONS |= {
    math.prod: product,
    functools.reduce: reduced,
    functools.cmp_to_key: comparing,
    operator.itemgetter: getter,
    operator.getitem: item,
    operator.setitem: lambda container, key, value: store(value, container, key),
    operator.delitem: removed,
    operator.countOf: occurrences,
    operator.indexOf: first_position,
    operator.abs: lambda value: callee(abs)(value),
    operator.truth: truth,
    operator.not_: lambda value: not truth(value),
    operator.is_: FREE,
    operator.is_not: FREE,
    operator.index: FREE,
    collections.deque: queue,
    collections.OrderedDict: ordered_dict,
    collections.OrderedDict.fromkeys: lambda keys, value=None: collections.OrderedDict.fromkeys(hashed(keys), value),
    collections.defaultdict: defaulting,
    collections.Counter: tallied,
}
