"""Rules of built-in functions and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .calls import FREE, FUNCTIONS, callback
from .counter import (
    DICTS,
    NUMBERS,
    WORK,
    by_length,
    charge,
    counted,
    given,
    hashed,
    lazy,
    listed,
    looped,
    refuse,
    size,
    weight,
)
from .operators import OPERATORS, atoms, eq
from .places import formatted, shown

__work__ = True
LARGEST = 512
"""Bits of the numbers that a range may have."""


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a function of numbers, texts and other values: it touches them and makes its result."""

    def rule(*arguments: Any, **named: Any) -> Any:
        charge(1 + sum(map(weight, arguments)) if arguments else 1)
        result = function(*arguments, **named)
        charge(size(result))
        return result

    return rule


def listing(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a type of sequences."""
    return lambda *items: kind(*map(given, items))


def hashing(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a type of sets."""
    return lambda *items: kind(*map(hashed, items))


def pairs(items: Any) -> Any:
    """Return what a dict is made of, paid for."""
    return hashed(items) if type(items) in DICTS else map(_pair, iter(looped(items)))


def _pair(pair: Any) -> Any:
    if type(pair) not in (tuple, list):
        refuse("a dict of pairs that are neither tuples nor lists", "make them tuples")
    charge(1 + len(pair) + weight(pair[0] if pair else None))
    return pair


def total(items: Any, start: Any = 0) -> Any:
    """Sum items: numbers at once, anything else as additions one by one."""
    items = listed(items)
    kinds = set(map(type, items))
    if kinds <= NUMBERS and type(start) in NUMBERS:
        whole = items if kinds <= {int, bool} else [number for number in items if type(number) is int]
        bits = max(map(int.bit_length, whole), default=0)
        charge(1 + size(start) * len(items) + (bits >> 6) * len(items))
        return sum(items, start)
    if type(start) in (str, bytes):
        return sum(items, start)  # raises TypeError
    for item in items:
        start = OPERATORS["Add"](start, item)
    return start


def weighing(key: Any, times: int = 1) -> Any:
    """Return a key function whose values are paid for by their weight."""
    if key is None:
        return None
    function = callback(key)

    def weighed(item: Any) -> Any:
        value = function(item)
        charge(times * weight(value))
        return value

    return weighed


def extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of ``min`` or ``max``."""

    def rule(*values: Any, key: Any = None, **named: Any) -> Any:
        if len(values) == 1:
            items = listed(values[0])
            charge(1 + (weight(items) if key is None else 0))
            return function(items, key=weighing(key), **named)
        charge(1 + (sum(map(weight, values)) if key is None else len(values)))
        return function(*values, key=weighing(key), **named) if key else function(*values, **named)

    return rule


def ordered(items: Any, *, key: Any = None, reverse: bool = False) -> list[Any]:
    """Sort items: each is compared about log n times."""
    copied = list(listed(items))
    sort(copied, key=key, reverse=reverse)
    return copied


def sort(items: list[Any], *, key: Any = None, reverse: bool = False) -> None:
    """Sort a list in place."""
    rounds = len(items).bit_length()
    charge(1 + len(items) + (weight(items) * rounds if key is None else 0))
    items.sort(key=weighing(key, rounds), reverse=reverse)


def iterator(items: Any, *sentinel: Any) -> Any:
    """Return an iterator over items, or over the values of calls."""
    WORK[0] += 1
    if sentinel:
        return _called(callback(items), *sentinel)
    return iter(looped(items))


def _called(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    while not eq(value := function(), sentinel):
        yield value


def mapped(function: Any, *items: Any) -> Any:
    """Apply a function to items of one or more columns."""
    metered = callback(function)
    charge(len(items))
    columns = [lazy(column) for column in items]
    if len(columns) < 4:
        return map(metered, *columns)
    return (metered(*row) for row in by_length(zip(*columns, strict=False)))


def zipped(*items: Any, **named: Any) -> Any:
    """Zip columns; a row of many is paid for by its length."""
    charge(1 + len(items))
    rows = zip(*[lazy(column) for column in items], **named)  # noqa: B905
    return rows if len(items) < 4 else by_length(rows)


def filtered(function: Any, items: Any) -> Any:
    """Filter items; those left out count, too."""
    return filter(None if function is None else callback(function), counted(iter(looped(items))))


def small(*numbers: Any) -> None:
    """Refuse large integers where each step adds them."""
    if any(type(number) is int and number.bit_length() > LARGEST for number in numbers):
        refuse(f"steps over numbers of more than {LARGEST} bits", "count with small numbers")


def spaced(*ends: Any) -> range:
    """Return a range."""
    WORK[0] += 1
    small(*ends)
    return range(*ends)


def enumerated(items: Any, start: Any = 0) -> Any:
    """Number items."""
    WORK[0] += 1
    small(start)
    return enumerate(lazy(items), start)


def backwards(items: Any) -> Any:
    """Return a reversed iterator."""
    WORK[0] += 1
    return reversed(looped(items))


def power(base: Any, exponent: Any, modulus: Any = None) -> Any:
    """Raise to a power."""
    if modulus is None:
        return OPERATORS["Pow"](base, exponent)
    if {type(base), type(exponent), type(modulus)} - {int, bool}:
        refuse("pow() of three values that are not integers", "use integers")
    charge(1 + exponent.bit_length() * (1 + max(size(base), size(modulus))) ** 2)
    return pow(base, exponent, modulus)


def divided(left: Any, right: Any) -> Any:
    """Divide with remainder."""
    charge((1 + size(left)) * (1 + size(right)))
    return divmod(left, right)


def rounded(number: Any, digits: Any = None) -> Any:
    """Round a number."""
    charge(1 + size(number) + ((abs(digits) >> 4) ** 2 if type(digits) is int else 0))
    return round(number) if digits is None else round(number, digits)


def whole(value: Any = 0, *base: Any, **named: Any) -> int:
    """Convert to an integer; digits by the square of their number."""
    charge(1 + size(value) + ((len(value) >> 4) ** 2 if type(value) in (str, bytes) else 0))
    return int(value, *base, **named)


def texted(value: Any = "", *more: Any) -> str:
    """Convert to text."""
    if more:
        refuse("str() of bytes", "keep text")
    return value if type(value) is str else shown(value)


def printed(*values: Any, **named: Any) -> None:
    """Show values, which go nowhere."""
    for value in values:
        WORK[0] += 1
        shown(value)


def checking(function: Callable[..., bool]) -> Callable[..., bool]:
    """Return the rule of a check of types."""

    def rule(value: Any, kinds: Any) -> bool:
        charge(weight(kinds))
        return function(value, kinds)

    return rule


def dictionary(*items: Any, **named: Any) -> dict[Any, Any]:
    """Make a dict."""
    charge(1 + len(named))
    return dict(*map(pairs, items), **named)


def from_keys(items: Any, value: Any = None) -> dict[Any, Any]:
    """Make a dict of keys with one value."""
    return dict.fromkeys(hashed(items), value)


def numbered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a function that shows a number."""

    def rule(value: Any) -> Any:
        atoms((value,), "digits")
        result = function(value)
        charge(size(result))
        return result

    return rule


_FREE: list[Any] = [id, bool, callable, chr, len, super, object, type, slice, next]
FUNCTIONS |= dict.fromkeys(_FREE, FREE)
_RULES: dict[Any, Any] = {
    **{kind: plain(kind) for kind in (abs, float, complex, ord, hash)},
    **{function: numbered(function) for function in (bin, oct, hex)},
    list: listing(list),
    tuple: listing(tuple),
    set: hashing(set),
    frozenset: hashing(frozenset),
    dict: dictionary,
    dict.fromkeys: from_keys,
    any: listing(any),
    all: listing(all),
    sum: total,
    min: extreme(min),
    max: extreme(max),
    sorted: ordered,
    iter: iterator,
    map: mapped,
    zip: zipped,
    filter: filtered,
    range: spaced,
    enumerate: enumerated,
    reversed: backwards,
    pow: power,
    divmod: divided,
    round: rounded,
    int: whole,
    int.from_bytes: plain(int.from_bytes),
    str: texted,
    str.maketrans: plain(str.maketrans),
    repr: lambda value: shown(value, "r"),
    ascii: lambda value: shown(value, "a"),
    format: lambda value, specification="": formatted(value, "", specification),
    print: printed,
    isinstance: checking(isinstance),
    issubclass: checking(issubclass),
}
FUNCTIONS |= _RULES
