"""Pieces of woven source, and the prices of statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..metered import has_star

COUNTER = "__work__"
"""The name under which woven source imports the meter."""
STATEMENT = 8
NODES = 32
"""Parts of a statement beyond which each costs a unit: a loop that is written out is not free."""


def temporary(name: str, value: ast.expr) -> tuple[ast.Name, ast.Assign]:
    """Return a variable that source cannot name, and the statement that sets it."""
    name = f"{COUNTER[:-2]}_{name}__"
    return ast.Name(name, ast.Load()), ast.Assign([ast.Name(name, ast.Store())], value)


def rows_of(items: ast.expr, targets: Iterable[ast.expr]) -> ast.expr:
    """Return what a loop over rows runs over."""
    if any(map(has_star, targets)):
        return metered("each_unpacked", items)
    return metered("each_taken_apart" if any(map(is_row, targets)) else "looped", items)


def is_block(node: ast.AST, block: str) -> bool:
    """Return whether a field of a node is a block of statements."""
    statements = getattr(node, block, None)
    return isinstance(statements, list) and bool(statements) and isinstance(statements[0], ast.stmt)


def prices_of(node: ast.AST, statements: list[ast.stmt]) -> list[int]:
    """Return the price of each statement of a block; a round of a loop pays for the loop's test and targets."""
    prices = [price_of(each) for each in statements]
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and is_text(statements[0]):
        prices[0] = 0
    if isinstance(node, ast.While | ast.For):
        prices[0] += price_of(node) - STATEMENT
    return prices


def price_of(node: ast.AST) -> int:
    """Return the price of a statement, or of a round of an expression, by its parts beside its blocks."""
    count, waiting = 0, [node]
    while waiting:
        count += 1
        waiting += [each for each in ast.iter_child_nodes(waiting.pop()) if not isinstance(each, ast.stmt)]
    return STATEMENT + max(0, count - NODES)


def charged(units: int) -> ast.stmt:
    """Return the statement that charges units."""
    return ast.AugAssign(ast.Subscript(attribute("WORK"), ast.Constant(0), ast.Store()), ast.Add(), ast.Constant(units))


def tick(units: int) -> ast.expr:
    """Return the call that charges a round of an expression, and is true."""
    return metered("tick", *([ast.Constant(units)] if units != STATEMENT else []))


def after(first: ast.expr, value: ast.expr) -> ast.expr:
    """Return an expression that evaluates another before it."""
    return ast.Subscript(ast.Tuple([first, value], ast.Load()), ast.Constant(1), ast.Load())


def as_argument(key: ast.expr) -> ast.expr:
    """Return a subscript as an argument."""
    if isinstance(key, ast.Slice):
        parts = [part or ast.Constant(None) for part in (key.lower, key.upper, key.step)]
        return metered("part", *parts)
    return key


def weighed_side(side: ast.expr) -> ast.expr:
    """Return one side of a chain of comparisons, paid for."""
    return side if isinstance(side, ast.Constant) else metered("weighed", side)


def hashed_element(value: ast.expr) -> ast.expr:
    """Return an element of a set, paid for."""
    return value if isinstance(value, ast.Starred) else metered("key", value)


def is_row(target: ast.expr) -> bool:
    """Return whether a target has several parts."""
    return isinstance(target, ast.Tuple | ast.List)


def operation(table: str, kind: ast.AST, *operands: ast.expr) -> ast.expr:
    """Return the metered form of an operator."""
    which = ast.Subscript(attribute(table), ast.Constant(type(kind).__name__), ast.Load())
    return ast.Call(which, list(operands), [])


def attribute(name: str) -> ast.expr:
    """Return a name of the meter."""
    return ast.Attribute(ast.Name(COUNTER, ast.Load()), name, ast.Load())


def metered(function: str, *arguments: ast.expr) -> ast.expr:
    """Return a call of a function of the meter."""
    return ast.Call(attribute(function), list(arguments), [])


def is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a text or another constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_future(node: ast.stmt) -> bool:
    """Return whether a statement changes how the module compiles."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
