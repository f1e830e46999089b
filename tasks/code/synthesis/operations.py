"""The operations that make up programs: typed, described in words with their edge cases, and in Python.

``{x}`` stands for the current value, ``{n}`` for a number and ``{c}`` for a character, both drawn for the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Kind = Literal["int", "ints", "str", "strs", "dict"]
KINDS: Mapping[Kind, str] = MappingProxyType(
    {
        "int": "an integer",
        "ints": "a list of integers",
        "str": "a string",
        "strs": "a list of strings",
        "dict": "a dict of strings to integers",
    }
)
"""Names of kinds in a prompt."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a program.

    Args:
        takes: kind of ``{x}``.
        gives: kind of the result.
        words: description of the step, in the imperative.
        source: Python expression of the step.
    """

    takes: Kind
    gives: Kind
    words: str
    source: str


def _of(takes: Kind, gives: Kind, *lines: tuple[str, str]) -> tuple[Operation, ...]:
    return tuple(Operation(takes, gives, words, source) for words, source in lines)


OPERATIONS: tuple[Operation, ...] = (
    *_of(
        "int",
        "int",
        ("add {n}", "{x} + {n}"),
        ("subtract {n}", "{x} - {n}"),
        ("multiply by {n}", "{x} * {n}"),
        ("subtract it from {n}", "{n} - {x}"),
        ("divide by {n}, rounded down", "{x} // {n}"),
        ("take the remainder after division by {n} (never negative)", "{x} % {n}"),
        ("take its distance from {n} (never negative)", "abs({x} - {n})"),
        ("take the larger of it and {n}", "max({x}, {n})"),
        ("take the smaller of it and {n}", "min({x}, {n})"),
    ),
    *_of(
        "int",
        "str",
        ("write it in decimal", "str({x})"),
        ("write it in binary without a prefix (a minus sign first if it is negative)", "format({x}, 'b')"),
    ),
    *_of(
        "int",
        "ints",
        ("list the numbers from 0 up to (not including) its remainder after division by {n}", "list(range({x} % {n}))"),
    ),
    *_of(
        "ints",
        "ints",
        ("add {n} to each", "[item + {n} for item in {x}]"),
        ("multiply each by {n}", "[item * {n} for item in {x}]"),
        ("keep those greater than {n}", "[item for item in {x} if item > {n}]"),
        ("keep those less than {n}", "[item for item in {x} if item < {n}]"),
        ("keep those divisible by {n}", "[item for item in {x} if item % {n} == 0]"),
        ("drop those equal to {n}", "[item for item in {x} if item != {n}]"),
        ("sort them, smallest first", "sorted({x})"),
        ("sort them, largest first", "sorted({x}, reverse=True)"),
        ("reverse their order", "{x}[::-1]"),
        ("keep the first {n} (all if there are fewer)", "{x}[:{n}]"),
        ("drop the first {n} (none are left if there are fewer)", "{x}[{n}:]"),
        ("keep every second one, starting with the first", "{x}[::2]"),
        ("drop duplicates, keeping the first of each", "list(dict.fromkeys({x}))"),
        ("replace each with the sum of all up to and including it", "[sum({x}[: at + 1]) for at in range(len({x}))]"),
        ("replace them with the differences between each and the one before it (one fewer; none if there are none)",
         "[after - before for before, after in zip({x}, {x}[1:])]"),
        ("take the remainder of each after division by {n} (never negative)", "[item % {n} for item in {x}]"),
    ),
    *_of(
        "ints",
        "int",
        ("take their sum (0 if there are none)", "sum({x})"),
        ("count them", "len({x})"),
        ("take the largest (0 if there are none)", "max({x}, default=0)"),
        ("take the smallest (0 if there are none)", "min({x}, default=0)"),
        ("take the last (0 if there are none)", "({x} or [0])[-1]"),
        ("count those equal to {n}", "{x}.count({n})"),
    ),
    *_of(
        "ints",
        "dict",
        ("count how often each occurs, keyed by its decimal form", "{{str(item): {x}.count(item) for item in {x}}}"),
    ),
    *_of("ints", "strs", ("write each in decimal", "[str(item) for item in {x}]")),
    *_of(
        "str",
        "str",
        ("convert it to upper case", "{x}.upper()"),
        ("convert it to lower case", "{x}.lower()"),
        ("reverse it", "{x}[::-1]"),
        ("remove every '{c}'", "{x}.replace('{c}', '')"),
        ("replace every '{c}' with '-'", "{x}.replace('{c}', '-')"),
        ("keep its first {n} characters (all if it is shorter)", "{x}[:{n}]"),
        ("drop its first {n} characters (nothing is left if it is shorter)", "{x}[{n}:]"),
        ("sort its characters", "''.join(sorted({x}))"),
        ("drop duplicate characters, keeping the first of each", "''.join(dict.fromkeys({x}))"),
        ("remove all spaces", "{x}.replace(' ', '')"),
        ("put '{c}' in front of it", "'{c}' + {x}"),
    ),
    *_of(
        "str",
        "int",
        ("take its length", "len({x})"),
        ("count how often '{c}' occurs in it", "{x}.count('{c}')"),
        ("find the index of the first '{c}' in it, starting at 0 (-1 if there is none)", "{x}.find('{c}')"),
    ),
    *_of(
        "str",
        "strs",
        ("split it at whitespace", "{x}.split()"),
        ("split it at each '{c}' (empty parts count)", "{x}.split('{c}')"),
    ),
    *_of(
        "strs",
        "strs",
        ("convert each to upper case", "[item.upper() for item in {x}]"),
        ("reverse each", "[item[::-1] for item in {x}]"),
        ("keep those longer than {n} characters", "[item for item in {x} if len(item) > {n}]"),
        ("keep those that contain '{c}'", "[item for item in {x} if '{c}' in item]"),
        ("drop the empty ones", "[item for item in {x} if item]"),
        ("sort them by length, and those of equal length alphabetically",
         "sorted({x}, key=lambda item: (len(item), item))"),
        ("reverse their order", "{x}[::-1]"),
        ("keep the first {n} (all if there are fewer)", "{x}[:{n}]"),
        ("drop duplicates, keeping the first of each", "list(dict.fromkeys({x}))"),
        ("append '{c}' to each", "[item + '{c}' for item in {x}]"),
    ),
    *_of(
        "strs",
        "str",
        ("join them with '-'", "'-'.join({x})"),
        ("join their first characters (empty ones have none)", "''.join(item[:1] for item in {x})"),
        ("take the longest, and the first of the longest ('' if there are none)", "max({x}, key=len, default='')"),
    ),
    *_of("strs", "ints", ("take the length of each", "[len(item) for item in {x}]")),
    *_of("strs", "int", ("count them", "len({x})")),
    *_of("strs", "dict", ("count how often each occurs", "{{item: {x}.count(item) for item in {x}}}")),
    *_of(
        "dict",
        "dict",
        ("keep the entries with a value greater than {n}",
         "{{key: value for key, value in {x}.items() if value > {n}}}"),
        ("multiply each value by {n}", "{{key: value * {n} for key, value in {x}.items()}}"),
        ("put '{c}' in front of each key", "{{'{c}' + key: value for key, value in {x}.items()}}"),
    ),
    *_of(
        "dict",
        "strs",
        ("list the keys alphabetically", "sorted({x})"),
        ("list the keys, largest value first, and those with equal values alphabetically",
         "sorted({x}, key=lambda key: (-{x}[key], key))"),
    ),
    *_of("dict", "ints", ("list the values, smallest first", "sorted({x}.values())")),
    *_of("dict", "int", ("take the sum of the values (0 if there are none)", "sum({x}.values())")),
)  # fmt: skip
"""All operations."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a value.

    Args:
        takes: kind of ``{x}``.
        words: words after "if".
        source: Python expression of the condition.
    """

    takes: Kind
    words: str
    source: str


CONDITIONS: tuple[Condition, ...] = (
    Condition("int", "it is even", "{x} % 2 == 0"),
    Condition("int", "it is negative", "{x} < 0"),
    Condition("int", "it is greater than {n}", "{x} > {n}"),
    Condition("ints", "there are more than {n} of them", "len({x}) > {n}"),
    Condition("ints", "there are none", "not {x}"),
    Condition("ints", "their sum is negative", "sum({x}) < 0"),
    Condition("ints", "{n} is among them", "{n} in {x}"),
    Condition("str", "it is empty", "not {x}"),
    Condition("str", "it contains '{c}'", "'{c}' in {x}"),
    Condition("str", "it has more than {n} characters", "len({x}) > {n}"),
    Condition("strs", "there are none", "not {x}"),
    Condition("strs", "there are more than {n} of them", "len({x}) > {n}"),
    Condition("dict", "it has no entries", "not {x}"),
    Condition("dict", "it has the key '{c}'", "'{c}' in {x}"),
)
"""All conditions."""
