"""Mutation operators: from one node of a syntax tree to the edits that fit there."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.In: (r"in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Is: (r"is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
LOOKALIKES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "startswith": "endswith",
    "endswith": "startswith",
    "lower": "upper",
    "upper": "lower",
    "strip": "lstrip",
    "lstrip": "strip",
    "rstrip": "strip",
    "find": "rfind",
    "rfind": "find",
    "split": "rsplit",
    "rsplit": "split",
    "index": "rindex",
    "appendleft": "append",
    "popleft": "pop",
    "extend": "append",
    "floor": "ceil",
    "ceil": "floor",
    "update": "setdefault",
    "keys": "values",
    "values": "keys",
    "union": "intersection",
    "ljust": "rjust",
    "rjust": "ljust",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "partition": "rpartition",
    "rpartition": "partition",
    "discard": "add",
    "isdigit": "isalpha",
    "isalpha": "isalnum",
}
"""Functions and methods that people confuse."""
LONGEST = 6
"""Most lines of a statement to delete; the gap that a longer one leaves would be too obvious."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that replaces bytes ``start`` to ``end`` by ``after``."""

    start: int
    end: int
    operator: str
    after: str


@dataclass(frozen=True, slots=True)
class Place:
    """A node with the data that is needed to edit its text.

    Args:
        node: the node.
        function: innermost enclosing function.
        data: the whole source.
        starts: offset of each line.
    """

    node: ast.AST
    function: Function | None
    data: bytes
    starts: Sequence[int]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets at which the text of a node starts and ends."""
        first, last = self.starts[node.lineno - 1], self.starts[node.end_lineno - 1]  # type: ignore[attr-defined]
        return first + node.col_offset, last + node.end_col_offset  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def whole(self, node: ast.AST, operator: str, after: str) -> Edit:
        """Return the replacement of a node."""
        return Edit(*self.span(node), operator, after)

    def between(self, one: int, other: int, pattern: str, operator: str, after: str) -> Iterator[Edit]:
        """Replace the only match of ``pattern`` between two offsets; yield nothing if a comment makes it ambiguous."""
        gap = self.data[one:other]
        if b"#" in gap:
            return
        matches = list(re.finditer(pattern.encode(), gap))
        if len(matches) == 1:
            yield Edit(one + matches[0].start(), one + matches[0].end(), operator, after)


def edits_of(node: ast.AST, function: Function | None, data: bytes, starts: Sequence[int]) -> Iterator[Edit]:
    """Yield every edit that fits at this node itself, without those below it."""
    place = Place(node, function, data, starts)
    match node:
        case ast.Compare():
            yield from _comparison(place, node)
        case ast.BinOp() | ast.AugAssign():
            yield from _arithmetic(place, node)
        case ast.BoolOp():
            yield from _boolean(place, node)
        case ast.UnaryOp():
            yield from _unary(place, node)
        case ast.If() | ast.While() | ast.IfExp():
            yield place.whole(node.test, "negated condition", _negated(place.text(node.test)))
        case ast.comprehension():
            for test in node.ifs:
                yield place.whole(test, "negated condition", _negated(place.text(test)))
        case ast.Call():
            yield from _call(place, node)
        case ast.Slice():
            yield from _slice(place, node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _defaults(place, node)
        case ast.Name(ctx=ast.Load()):
            yield from _wrong_variable(place, node)
        case ast.Constant() if isinstance(node.value, int) and not isinstance(node.value, bool):
            yield place.whole(node, "off by one", str(node.value + 1))
            if node.value > 0:
                yield place.whole(node, "off by one", str(node.value - 1))
        case ast.Constant(value=True | False):
            yield place.whole(node, "wrong constant", str(not node.value))
        case ast.Break():
            yield place.whole(node, "loop control", "continue")
        case ast.Continue():
            yield place.whole(node, "loop control", "break")
        case ast.Attribute(ctx=ast.Load()) if node.attr in LOOKALIKES:
            end = place.span(node)[1]
            yield Edit(end - len(node.attr), end, "wrong function", LOOKALIKES[node.attr])
    if isinstance(node, ast.stmt):
        yield from _statement(place, node)


def _comparison(place: Place, node: ast.Compare) -> Iterator[Edit]:
    left: ast.expr = node.left
    for kind, right in zip(node.ops, node.comparators, strict=True):
        pattern, after = COMPARISONS[type(kind)]
        words = rf"\b{pattern}\b" if pattern[0].isalpha() else pattern
        yield from place.between(place.span(left)[1], place.span(right)[0], words, "comparison", after)
        left = right


def _arithmetic(place: Place, node: ast.BinOp | ast.AugAssign) -> Iterator[Edit]:
    left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    if isinstance(node.op, ast.MatMult) or (isinstance(left, ast.Constant | ast.JoinedStr) and _is_text(left)):
        return  # a string with % or + would only raise
    before, after = ARITHMETIC[type(node.op)]
    yield from place.between(place.span(left)[1], place.span(right)[0], re.escape(before), "arithmetic", after)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _boolean(place: Place, node: ast.BoolOp) -> Iterator[Edit]:
    before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for one, other in zip(node.values, node.values[1:], strict=False):
        yield from place.between(place.span(one)[1], place.span(other)[0], rf"\b{before}\b", "boolean", after)


def _unary(place: Place, node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not):
        yield place.whole(node, "negated condition", f"bool({place.text(node.operand)})")
    elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield place.whole(node, "arithmetic", place.text(node.operand))


def _negated(condition: str) -> str:
    return f"not ({condition})"


def _call(place: Place, node: ast.Call) -> Iterator[Edit]:
    plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    if len(plain) == len(node.args):
        for one, other in itertools.pairwise(plain):
            (start, middle), (later, end) = place.span(one), place.span(other)
            if place.text(one) != place.text(other):
                between = place.data[middle:later].decode()
                yield Edit(start, end, "swapped arguments", f"{place.text(other)}{between}{place.text(one)}")
    if isinstance(node.func, ast.Name) and node.func.id == "range" and node.args:
        bound = node.args[0] if len(node.args) == 1 else node.args[1]
        if not isinstance(bound, ast.Constant):
            yield place.whole(bound, "loop bound", f"{place.text(bound)} - 1")
            yield place.whole(bound, "loop bound", f"{place.text(bound)} + 1")
    if isinstance(node.func, ast.Name) and node.func.id in LOOKALIKES:
        yield place.whole(node.func, "wrong function", LOOKALIKES[node.func.id])


def _slice(place: Place, node: ast.Slice) -> Iterator[Edit]:
    for bound in (node.lower, node.upper):
        if bound is not None and not isinstance(bound, ast.Constant):
            yield place.whole(bound, "slice bound", f"{place.text(bound)} + 1")
        if bound is not None:
            yield place.whole(bound, "slice bound", "")
    if node.step is not None:
        yield place.whole(node.step, "slice bound", "")


def _defaults(place: Place, node: Function) -> Iterator[Edit]:
    for default in (*node.args.defaults, *(value for value in node.args.kw_defaults if value is not None)):
        if isinstance(default, ast.Constant) and isinstance(default.value, str) and default.value:
            yield place.whole(default, "wrong default", "''")
        elif isinstance(default, ast.Constant) and isinstance(default.value, int | float):
            yield place.whole(default, "wrong default", "None")


def _wrong_variable(place: Place, node: ast.Name) -> Iterator[Edit]:
    """Yield the next of the function's parameters and plain variables, in order of their names."""
    if place.function is None:
        return
    arguments = place.function.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {
        each.id
        for each in ast.walk(place.function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.lineno < node.lineno
    }
    others = sorted(names - {"self", "cls"})
    if node.id in others and len(others) > 1:
        yield place.whole(node, "wrong variable", others[(others.index(node.id) + 1) % len(others)])


def _statement(place: Place, node: ast.stmt) -> Iterator[Edit]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if place.function is None or lines > LONGEST or node is place.function:
        return
    match node:
        case ast.Expr(value=ast.Constant()):
            return  # a docstring
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield place.whole(node, "dropped statement", "pass")
        case ast.If(orelse=[]) | ast.For(orelse=[]):
            yield place.whole(node, "dropped branch", "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield place.whole(node, "dropped statement", "pass")
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant | ast.Name):
            yield place.whole(value, "wrong return", "None")
    if isinstance(node, ast.For | ast.While) and (after := _final(place.function)):
        last = node.body[-1]
        if not isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue):
            end = place.span(last)[1]
            yield Edit(end, end, "early return", f"\n{' ' * node.body[0].col_offset}return {after}")


def _final(function: Function) -> str:
    """Return the variable that a function returns in its last statement, or an empty string."""
    last = function.body[-1]
    return last.value.id if isinstance(last, ast.Return) and isinstance(last.value, ast.Name) else ""
