"""The names that woven source uses."""

from __future__ import annotations

from . import builtin_rules, iterators, library_rules, methods
from .calls import callee, decorator, defined, owner
from .counter import (
    REFUSED,
    STATEMENT,
    SUBMITTED,
    WORK,
    RefusedError,
    delegated,
    key,
    looped,
    spent,
    tick,
)
from .operators import COMPARISONS, IN_PLACE, OPERATORS, UNARY, holds, weighed
from .places import each_taken_apart, each_unpacked, formatted, item, place, spread, store, taken_apart, unpacked

part = slice
RULES = (builtin_rules, iterators, library_rules, methods)
"""Modules that fill the tables of ``calls``."""
__all__ = [
    "COMPARISONS",
    "IN_PLACE",
    "OPERATORS",
    "REFUSED",
    "STATEMENT",
    "SUBMITTED",
    "UNARY",
    "WORK",
    "RefusedError",
    "callee",
    "decorator",
    "defined",
    "delegated",
    "each_taken_apart",
    "each_unpacked",
    "formatted",
    "holds",
    "item",
    "key",
    "looped",
    "owner",
    "part",
    "place",
    "spent",
    "spread",
    "store",
    "taken_apart",
    "tick",
    "unpacked",
    "weighed",
]
