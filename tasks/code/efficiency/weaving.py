"""Weaves the counting of work into source, outside the sandbox: there is no tracer that it could switch off.

Counting with ``sys.settrace`` slows code down thirtyfold, sees nothing of what is done in C, and is one call away from
being disabled by what it watches. Here the statements count themselves, and every operation that may do more than a
little in C goes through the meter (``meter``). The submitted code cannot name the counter: ``language.METERED``.
"""

from __future__ import annotations

import ast
from pathlib import Path

from ....errors import TaskError
from ..metered import has_star, is_nested
from .meter import meter
from .syntax import (
    COUNTER,
    after,
    as_argument,
    attribute,
    charged,
    hashed_element,
    is_block,
    is_future,
    is_row,
    is_text,
    metered,
    operation,
    price_of,
    prices_of,
    rows_of,
    temporary,
    tick,
    weighed_side,
)

METER = "turnwise_work_meter"
"""The package that woven source imports: the files of ``meter``, in a folder of this name."""
BLOCKS = ("body", "orelse", "finalbody")


def meter_files() -> dict[str, bytes]:
    """Return the files of the package that woven source imports, by path."""
    folder = Path(meter.__file__ or "").parent
    return {f"{METER}/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.py"))}


def weave(source: str) -> str:
    """Return the same program, counting its work in ``WORK[0]`` of the meter.

    Raises:
        TaskError: the source is not Python, or uses names that the counting needs.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"what does not compile cannot be counted: {error}") from None
    if any(isinstance(node, ast.Name) and node.id.startswith(COUNTER) for node in ast.walk(tree)):
        raise TaskError(f"{COUNTER} is the name of the counter")
    woven = ast.fix_missing_locations(_Weaver().visit(tree))
    return ast.unparse(woven) + "\n"


class _Weaver(ast.NodeTransformer):
    def visit_Module(self, node: ast.Module) -> ast.AST:
        self._visit_fields(node)
        at = 0
        while at < len(node.body) and (is_text(node.body[at]) or is_future(node.body[at])):
            at += 1
        node.body = node.body[:at] + ast.parse(f"from {METER} import meter as {COUNTER}").body + node.body[at:]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        prices = {block: prices_of(node, getattr(node, block)) for block in BLOCKS if is_block(node, block)}
        return self._visit_fields(node, prices)

    def _visit_fields(self, node: ast.AST, prices: dict[str, list[int]] | None = None) -> ast.AST:
        for block, units in (prices or {}).items():
            statements: list[ast.stmt] = []
            for statement, price in zip(getattr(node, block), units, strict=True):
                if price:
                    statements.append(charged(price))
                new = self.visit(statement)
                statements += new if isinstance(new, list) else [new]
            setattr(node, block, statements)
        kept = {block: getattr(node, block) for block in prices or {}}
        for block in kept:
            setattr(node, block, [])
        super().generic_visit(node)
        for block, statements in kept.items():
            setattr(node, block, statements)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self.generic_visit(node)
        if node.name == "__hash__":  # built-in code reduces a large number to a small one
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and each.value is not None:
                    each.value = metered("weighed", each.value)
        node.decorator_list = [metered("decorator", each) for each in node.decorator_list]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list = [metered("decorator", each) for each in node.decorator_list] + [attribute("defined")]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        price = price_of(node.body)
        self.generic_visit(node)
        node.body = after(tick(price), node.body)
        return node

    def _comprehension(self, node: ast.AST) -> ast.AST:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        price = price_of(node)
        for each in generators:
            each.iter = rows_of(self.visit(each.iter), [each.target])
            each.ifs = [tick(price), *(self.visit(test) for test in each.ifs)]
            each.target = self.visit(each.target)
        for part in ("key", "value", "elt"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        if isinstance(node, ast.DictComp):
            node.key = metered("key", node.key)
        elif isinstance(node, ast.SetComp):
            node.elt = metered("key", node.elt)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_For(self, node: ast.For) -> ast.AST:
        targets = [node.target]
        self.generic_visit(node)
        node.iter = rows_of(node.iter, targets)
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        self.generic_visit(node)
        node.value = metered("delegated", node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        for each in node.keywords:
            if each.arg is None:
                each.value = metered("spread", each.value)
        if not (isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args + node.keywords):
            node.func = metered("callee", node.func)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return operation("OPERATORS", node.op, node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) or isinstance(node.operand, ast.Constant):
            return node
        return operation("UNARY", node.op, node.operand)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        kind = node.ops[0]
        if len(node.ops) > 1:
            node.left, *node.comparators = [weighed_side(side) for side in (node.left, *node.comparators)]
            return node
        if isinstance(kind, ast.Is | ast.IsNot):
            return node
        if not isinstance(kind, ast.In | ast.NotIn):
            return operation("COMPARISONS", kind, node.left, node.comparators[0])
        # The value comes first, so that both are evaluated in the order in which they are written.
        found = metered("holds", node.left, node.comparators[0])
        return found if isinstance(kind, ast.In) else ast.UnaryOp(ast.Not(), found)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            return metered("item", node.value, as_argument(node.slice))
        node.value = metered("place", node.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = metered("owner", node.value)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = metered("unpacked", node.value)
        return node

    def visit_Set(self, node: ast.Set) -> ast.AST:
        self.generic_visit(node)
        node.elts = [each if isinstance(each, ast.Constant) else hashed_element(each) for each in node.elts]
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            if key is None:
                node.values[index] = metered("spread", value)
            elif not isinstance(key, ast.Constant):
                node.keys[index] = metered("key", key)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return metered("spent", node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        conversion = ast.Constant("" if node.conversion < 0 else chr(node.conversion))
        text = metered("formatted", node.value, conversion, node.format_spec or ast.Constant(""))
        return ast.FormattedValue(text, -1, None)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        if node.type is not None:
            node.type = metered("spent", node.type)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        targets = node.targets
        if len(targets) == 1 and isinstance(targets[0], ast.Subscript):
            target = targets[0]
            value, container, key = (self.visit(each) for each in (node.value, target.value, target.slice))
            return ast.Expr(metered("store", value, container, as_argument(key)))
        stars = sum(map(has_star, targets))
        self.generic_visit(node)
        if stars:
            node.value = metered("unpacked", node.value, ast.Constant(stars))
        elif any(is_nested(target) or not isinstance(node.value, ast.Tuple) for target in targets if is_row(target)):
            node.value = metered("taken_apart", node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        target, value = node.target, self.visit(node.value)
        if isinstance(target, ast.Name):
            new = operation("IN_PLACE", node.op, ast.Name(target.id, ast.Load()), value)
            return [ast.Assign([ast.Name(target.id, ast.Store())], new)]
        holder, holder_set = temporary("1", self.visit(target.value))
        if isinstance(target, ast.Attribute):
            holder_set.value = metered("owner", holder_set.value)
            new = operation("IN_PLACE", node.op, ast.Attribute(holder, target.attr, ast.Load()), value)
            return [holder_set, ast.Assign([ast.Attribute(holder, target.attr, ast.Store())], new)]
        key, key_set = temporary("2", as_argument(self.visit(target.slice)))
        old, old_set = temporary("3", metered("item", holder, key))
        new = operation("IN_PLACE", node.op, old, value)
        return [holder_set, key_set, old_set, ast.Expr(metered("store", new, holder, key))]
