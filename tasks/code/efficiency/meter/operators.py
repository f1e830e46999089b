"""Operators and comparisons, paid for by what they touch before they run."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from types import GenericAlias
from typing import Any

from .counter import (
    DICTS,
    HEAVY,
    KEY_VIEWS,
    NUMBERS,
    SEQUENCES,
    SETS,
    SIZED,
    SUBMITTED,
    TABLES,
    TEXTS,
    VIEWS,
    WORK,
    charge,
    counted,
    given,
    hashes,
    length,
    refuse,
    size,
    weight,
)

Binary = Callable[[Any, Any], Any]
PYTHON = 8
"""Cost per element in the parts of the standard library that are written in Python."""
__work__ = True


def _sum_of_words(left: int, right: int) -> int:
    return (left.bit_length() + right.bit_length()) >> 6


def _product_of_words(left: int, right: int) -> int:
    return (1 + (left.bit_length() >> 6)) * (1 + (right.bit_length() >> 6))


def _shifted_words(left: int, right: int) -> int:
    return (left.bit_length() + max(right, 0)) >> 6


def _power_words(left: int, right: int) -> int:
    return int(((left.bit_length() * max(right, 0)) >> 6) ** 2) if abs(left) > 1 else right.bit_length()


Price = Callable[[int, int], int]
WORDS: dict[Binary, Price] = {
    operator.mul: _product_of_words,
    operator.floordiv: _product_of_words,
    operator.mod: _product_of_words,
    operator.truediv: _product_of_words,
    operator.lshift: _shifted_words,
    operator.pow: _power_words,
}
"""Work of operators on large integers, in words; others take the sum of both."""


def paid(function: Binary) -> Binary:
    """Return the metered form of a binary operator."""
    price = WORDS.get(function, _sum_of_words)
    grows = function in (operator.lshift, operator.pow)

    def operated(left: Any, right: Any) -> Any:
        if type(left) is int and type(right) is int:
            if grows or left.bit_length() + right.bit_length() > 63:
                charge(price(left, right))
            WORK[0] += 1
            return function(left, right)
        _pay(function, left, right, price)
        result = function(left, right)
        if type(left) in SIZED or type(right) in SIZED:
            charge(size(result))
        return result

    return operated


def _pay(function: Binary, left: Any, right: Any, price: Price) -> None:
    one, other = type(left), type(right)
    WORK[0] += 1
    if one in NUMBERS and other in NUMBERS:
        whole = [int(value) if kind is bool else value for value, kind in ((left, one), (right, other))]
        if {type(value) for value in whole} == {int}:
            charge(price(*whole))
        else:
            charge(size(left) + size(right))
    elif function is operator.mod and one in TEXTS:
        atoms(right if other is tuple else (right,), "% on text")
        charge(len(left))
    elif one in VIEWS or other in VIEWS:
        if one not in SIZED or other not in SIZED:
            refuse("operators on a view and another iterable", "make a set of both")
        charge(hashes(left) + hashes(right))
    elif one in SETS | DICTS or other in SETS | DICTS:
        each = PYTHON if collections.Counter in (one, other) else 1
        charge(each * sum(hashes(value) for value in (left, right) if type(value) in SIZED))
    elif any(issubclass(kind, tuple) and kind is not tuple for kind in (one, other)):
        refuse("operators on a named tuple", "make it a tuple")
    elif one in (type, GenericAlias) or other in (type, GenericAlias):
        refuse("operators on types", "leave types out of expressions")
    elif function is operator.mul and int in (one, other):
        charge(size(left) * max(right, 0) if other is int else size(right) * max(left, 0))
    else:
        charge(size(left) + size(right))


def atoms(values: Any, what: str) -> None:
    """Pay for formatting plain values; a format may cut off what showing anything else took."""
    if any(type(value) not in NUMBERS | TEXTS and value is not None for value in values):
        refuse(f"{what} with anything but text and numbers", "use an f-string without a format")
    charge(sum(weight(value, True) for value in values))


def paid_in_place(function: Binary, plain: Binary) -> Binary:
    """Return the metered form of an augmented assignment, which gives the new value of its target."""
    operated = paid(plain)

    def assigned(left: Any, right: Any) -> Any:
        kind = type(left)
        if kind is int or kind in TEXTS or kind is tuple or kind in NUMBERS:
            return operated(left, right)
        WORK[0] += 1
        if kind in (list, collections.deque) and function is operator.iadd:
            return function(left, given(right))
        if kind in (list, collections.deque):
            charge(size(left) * max(right, 0) if type(right) is int else size(left))
            return function(left, right)
        if kind is collections.Counter or (kind is set and type(right) in SIZED):
            charge((PYTHON if kind not in SETS else 1) * (hashes(left) + hashes(right)))
            return function(left, right)
        if kind in DICTS and function is operator.ior:
            if type(right) not in DICTS:
                refuse("updating a dict from an iterable", "use a dict or a loop")
            charge(hashes(right))
            return function(left, right)
        return function(left, right) if kind in SUBMITTED else operated(left, right)

    return assigned


def compared(function: Binary) -> Binary:
    """Return the metered form of a comparison."""
    left_only, right_only = function in (operator.le, operator.lt), function in (operator.ge, operator.gt)

    def answer(left: Any, right: Any) -> Any:
        one, other = type(left), type(right)
        WORK[0] += 1
        if one is int and other is int:
            if left.bit_length() > 63:
                charge(min(left.bit_length(), right.bit_length()) >> 6)
        elif one in TEXTS:
            if one is other:
                charge(min(len(left), len(right)))
        elif collections.Counter in (one, other) and one in DICTS and other in DICTS:
            charge(PYTHON * (weight(left) + weight(right)))
        elif one in HEAVY and other in HEAVY:
            if one in SETS | VIEWS and (left_only or right_only):
                charge(weight(left if left_only else right))
            else:
                charge(min(weight(left), weight(right)) + _empty(left) + _empty(right))
        return function(left, right)

    return answer


def _empty(container: Any) -> int:
    """Return the empty slots of a set or dict, which comparing it visits."""
    return length(container) - len(container) if type(container) in TABLES else 0


def weighed(value: Any) -> Any:
    """Return one side of a chain of comparisons, paid for by its weight."""
    charge(weight(value))
    return value


def contains(container: Any, value: Any) -> bool:
    """Return whether a container holds a value."""
    kind = type(container)
    if kind in SETS or kind in DICTS or kind in KEY_VIEWS:
        charge(weight(value))
    elif kind in TEXTS:
        search(container, value)
    elif kind is range:
        charge(1 if type(value) in (int, bool) else len(container))
    elif kind in SEQUENCES or kind in VIEWS:
        among(container, value)
    elif kind in SUBMITTED and hasattr(kind, "__contains__"):
        WORK[0] += 1
    elif hasattr(kind, "__iter__") or hasattr(kind, "__getitem__"):
        return any(tested(one, value) for one in counted(iter(container)))
    return value in container


def holds(value: Any, container: Any) -> bool:
    """Return the same, with the operands in the order of their evaluation."""
    return contains(container, value)


def tested(one: Any, other: Any) -> bool:
    """Compare as a search does: the same object is equal."""
    return bool(one is other or eq(one, other))


def among(items: Any, value: Any) -> None:
    """Pay for comparing a value with each item of a built-in container."""
    charge(1 + length(items) * weight(value))


def search(text: Any, part: Any) -> None:
    """Pay for looking for a part in a text."""
    charge(1 + len(text) + len(text) * size(part) // 8)


def negated(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the metered form of a unary operator."""

    def operated(value: Any) -> Any:
        charge(1 + (PYTHON * size(value) if type(value) is collections.Counter else size(value)))
        return function(value)

    return operated


eq = compared(operator.eq)
OPERATORS: dict[str, Binary] = {
    name: paid(function)
    for name, function in {
        "Add": operator.add,
        "Sub": operator.sub,
        "Mult": operator.mul,
        "MatMult": operator.matmul,
        "Div": operator.truediv,
        "Mod": operator.mod,
        "Pow": operator.pow,
        "FloorDiv": operator.floordiv,
        "LShift": operator.lshift,
        "RShift": operator.rshift,
        "BitAnd": operator.and_,
        "BitOr": operator.or_,
        "BitXor": operator.xor,
    }.items()
}
"""Operators by the names of their syntax nodes, as are the next three."""
_PLAIN = {"Add": "add", "Sub": "sub", "Mult": "mul", "MatMult": "matmul", "Div": "truediv", "Mod": "mod", "Pow": "pow"}
_PLAIN |= {"FloorDiv": "floordiv", "LShift": "lshift", "RShift": "rshift"}
_PLAIN |= {"BitAnd": "and_", "BitOr": "or_", "BitXor": "xor"}
IN_PLACE: dict[str, Binary] = {
    name: paid_in_place(getattr(operator, "i" + plain.rstrip("_")), getattr(operator, plain))
    for name, plain in _PLAIN.items()
}
COMPARISONS: dict[str, Binary] = {
    "Eq": eq,
    **{
        name: compared(getattr(operator, plain))
        for name, plain in {"NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}.items()
    },
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "USub": negated(operator.neg),
    "UAdd": negated(operator.pos),
    "Invert": negated(operator.invert),
}
FROM_OPERATOR: dict[Any, Any] = {
    **{getattr(operator, plain): OPERATORS[name] for name, plain in _PLAIN.items()},
    **{getattr(operator, "i" + plain.rstrip("_")): IN_PLACE[name] for name, plain in _PLAIN.items()},
    operator.eq: eq,
    operator.ne: COMPARISONS["NotEq"],
    operator.lt: COMPARISONS["Lt"],
    operator.le: COMPARISONS["LtE"],
    operator.gt: COMPARISONS["Gt"],
    operator.ge: COMPARISONS["GtE"],
    operator.neg: UNARY["USub"],
    operator.pos: UNARY["UAdd"],
    operator.invert: UNARY["Invert"],
    operator.contains: contains,
    operator.concat: OPERATORS["Add"],
}
"""Functions of ``operator`` and their metered forms."""
