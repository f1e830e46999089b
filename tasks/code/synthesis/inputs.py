"""Inputs for programs: ordinary ones drawn by the seed, and the edge cases of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ...rng import Rng
from .operations import Kind
from .programs import LETTERS, Program

EDGES: Mapping[Kind, tuple[object, ...]] = MappingProxyType(
    {
        "int": (0, 1, -1, -7, 100),
        "ints": ([], [0], [-3], [5, 5, 5], [-2, -1, -9, 4]),
        "str": ("", " ", "a", "Aa aA", "nnn-e  t"),
        "strs": ([], [""], ["a"], ["no", "no", "", "on"], ["Tie", "tea", "ie"]),
        "dict": ({}, {"a": 0}, {"b": 3, "a": 3}, {"e": -1, "no": 12}, {"": 7}),
    }
)
"""Edge cases by kind."""


def calls(made: Program, rng: Rng, count: int) -> list[str]:
    """Return different calls on ordinary inputs, as Python; the last line of each is an expression."""
    found: dict[str, None] = {}
    for _ in range(40 * count):
        values = [rng.randint(0, 16) if made.expression else value(made.takes, rng) for _ in range(4)]
        found[_call(made, values, str(rng.randint(2, 9)))] = None
        if len(found) == count:
            break
    return list(found)


def edge_calls(made: Program) -> list[str]:
    """Return calls on the edge cases of the program's kind."""
    edges = EDGES[made.takes]
    if made.is_class:
        return [_call(made, edges[:count], "") for count in range(len(edges) + 1)]
    return [_call(made, [edge], number) for edge, number in zip(edges, "25379", strict=True)]


def _call(made: Program, values: Sequence[object], number: str) -> str:
    if not made.is_class:
        return f"{made.name}({values[0]!r}{f', {number}' if made.second else ''})"
    puts = [f"it.put({item!r})" for item in values]
    return "\n".join([f"it = {made.name}()", *puts, "(it.result(), it.drop(), it.result())"])


def value(kind: Kind, rng: Rng) -> object:
    """Draw an ordinary value of a kind."""
    if kind == "int":
        return rng.randint(-20, 40)
    if kind == "ints":
        return [rng.randint(-12, 20) for _ in range(rng.randint(2, 8))]
    if kind == "str":
        return " ".join(_word(rng) for _ in range(rng.randint(1, 3)))
    if kind == "strs":
        return [_word(rng) for _ in range(rng.randint(2, 6))]
    return {_word(rng): rng.randint(-5, 15) for _ in range(rng.randint(2, 5))}


def _word(rng: Rng) -> str:
    word = "".join(rng.pick(LETTERS + "btE") for _ in range(rng.randint(1, 6)))
    return word.capitalize() if rng.random() < 0.2 else word
