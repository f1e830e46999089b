"""Weaves the counting of work into source, outside the sandbox: there is no tracer that it could switch off.

Counting with ``sys.settrace`` slows code down thirtyfold, sees nothing of what is done in C, and is one call away from
being disabled by what it watches. Here the statements count themselves: the counter is part of the submitted code,
which is written in a language (``language.PURE``) that has no word for it. What is charged is said in ``work_meter``.
"""

from __future__ import annotations

import ast
from typing import Any

from ....errors import TaskError

METER = "turnwise_work_meter"
"""The module that woven source imports: a copy of ``work_meter.py`` under this name."""
COUNTER = "__work__"
STATEMENT = 8
BLOCKS = ("body", "orelse", "finalbody")
OPERATORS = ["Add", "Sub", "Mult", "Mod", "Pow", "FloorDiv", "LShift", "RShift", "BitAnd", "BitOr", "BitXor"]


def weave(source: str) -> str:
    """The same program, counting its work in ``turnwise_work_meter.WORK[0]``.

    Raises:
        TaskError: the source is not Python, or uses names that the counting needs.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"what does not compile cannot be counted: {error}") from None
    if any(isinstance(node, ast.Name) and node.id == COUNTER for node in ast.walk(tree)):
        raise TaskError(f"{COUNTER} is the name of the counter")
    woven = ast.fix_missing_locations(_Weaver().visit(tree))
    return ast.unparse(woven) + "\n"


class _Weaver(ast.NodeTransformer):
    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        at = 0
        while at < len(node.body) and (_is_text(node.body[at]) or _is_future(node.body[at])):
            at += 1
        node.body[at:at] = ast.parse(f"import {METER} as {COUNTER}").body
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            kept, node.annotation = node.annotation, ast.Constant(None)
            super().generic_visit(node)
            node.annotation = kept
        else:
            super().generic_visit(node)
        for block in BLOCKS:
            statements = getattr(node, block, None)
            own = not isinstance(node, ast.Module)  # whose import of the counter comes first
            if own and isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
                setattr(node, block, _counted(statements))
        return node

    def _function(self, node: Any) -> ast.AST:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node  # type: ignore[no-any-return]

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        both = ast.Tuple([_meter("tick"), node.body], ast.Load())
        node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, _meter("tick"))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node
        node.func = _meter("callee", node.func)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        kind = type(node.op).__name__
        if kind not in OPERATORS:
            return node
        which = ast.Subscript(_attribute("OPERATORS"), ast.Constant(kind), ast.Load())
        return _meter("operated", which, node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        node.value = _meter("spent", node.value)
        if not isinstance(node.target, ast.Name) or type(node.op).__name__ not in OPERATORS:
            return node
        # A list grows in place, at the price of what is added; a number or a text is made anew.
        read = ast.Name(node.target.id, ast.Load())
        return [node, ast.Expr(_meter("remade", read))]  # type: ignore[return-value]

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for index, (kind, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if isinstance(kind, ast.In | ast.NotIn):
                node.comparators[index] = _meter("searched", right)
            elif not isinstance(kind, ast.Is | ast.IsNot) and not isinstance(right, ast.Constant):
                node.comparators[index] = _meter("spent", right)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Del) or (isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Slice)):
            node.value = _meter("moved", node.value)
        elif isinstance(node.slice, ast.Slice):
            return _meter("spent", node)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _meter("unpacked", node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return _meter("spent", node)


def _counted(statements: list[ast.stmt]) -> list[ast.stmt]:
    counted: list[ast.stmt] = []
    for index, statement in enumerate(statements):
        if not (index == 0 and _is_text(statement)) and not isinstance(statement, ast.Global | ast.Nonlocal):
            target = ast.Subscript(_attribute("WORK"), ast.Constant(0), ast.Store())
            counted.append(ast.AugAssign(target, ast.Add(), ast.Constant(STATEMENT)))
        counted.append(statement)
    return counted


def _attribute(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(COUNTER, ast.Load()), name, ast.Load())


def _meter(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(_attribute(function), list(arguments), [])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
