"""Syntax that metered source must not use, because the counter would not see its work.

Everything else is decided at run time: see ``efficiency/meter``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_CONVERSIONS = "index int float complex length_hint round floor ceil trunc abs neg pos invert divmod"
_REFLECTED = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor"
HOOKS = frozenset({f"__{name}__" for name in _CONVERSIONS.split()} | {f"__r{name}__" for name in _REFLECTED.split()})
"""Special methods by which an object passes for a number in built-in code, whose price a rule would derive from it."""
ATTRIBUTES = frozenset({"mapping", "exceptions", "subgroup", "derive"})
"""Attributes of built-in objects that hold more than their weight says."""
ERRORS = frozenset(
    {"ExceptionGroup", "BaseExceptionGroup", "SyntaxError", "IndentationError", "TabError", "StopIteration"}
)
"""Errors that process their arguments; code may catch ``StopIteration`` but not create it."""


def uncounted(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the reason of everything that cannot be counted."""
    for node in ast.walk(tree):
        for text in _objections(node):
            line = getattr(node, "lineno", 0)
            yield line, f"line {line} {text}"


def has_star(target: ast.expr) -> bool:
    """Return whether a target has a star, at its first level."""
    return isinstance(target, ast.Tuple | ast.List) and any(isinstance(each, ast.Starred) for each in target.elts)


def is_nested(target: ast.expr) -> bool:
    """Return whether a part of a target has parts itself."""
    return isinstance(target, ast.Tuple | ast.List) and any(
        isinstance(_bare(each), ast.Tuple | ast.List) for each in target.elts
    )


def _bare(target: ast.expr) -> ast.expr:
    return target.value if isinstance(target, ast.Starred) else target


def _objections(node: ast.AST) -> Iterator[str]:
    if any(name == "super" or (_is_special(name) and not _is_method(node)) for name in _bound(node)):
        yield "gives a name to something that it may not"
    if getattr(node, "type_params", None) or type(node).__name__ == "TypeAlias":
        yield "has type parameters; leave them out"
    if isinstance(node, ast.FunctionDef) and node.returns is not None and _computes(node.returns):
        yield "computes in an annotation; write only names of types there"
    yield from _of_objects(node)
    match node:
        case ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Await():
            yield "is asynchronous; write plain functions"
        case ast.TryStar():
            yield "uses except*; use except"
        case ast.FunctionDef() if _is_special(node.name) and node.decorator_list:
            yield f"decorates {node.name}; write its body there"
        case ast.ClassDef() if node.keywords:
            yield "has keywords of a class; leave them out"
        case ast.arg(annotation=ast.expr() as written) | ast.AnnAssign(annotation=written) if _computes(written):
            yield "computes in an annotation; write only names of types there"
        case ast.Name(id="__annotations__") | ast.Attribute(attr="__annotations__"):
            yield "uses __annotations__; annotations are not evaluated"
        case ast.Attribute(attr="default_factory"):
            yield "uses default_factory; give it to defaultdict()"
        case ast.Subscript(slice=ast.Tuple(elts=parts)) if any(isinstance(each, ast.Slice) for each in parts):
            yield "has several slices in one subscript; use one"
        case ast.Compare() if len(node.ops) > 1 and any(isinstance(each, ast.In | ast.NotIn) for each in node.ops):
            yield "has `in` in a chain of comparisons; use `and`"
        case ast.withitem(optional_vars=ast.Tuple() | ast.List()):
            yield "unpacks in a with statement; unpack in the next line"
        case ast.Tuple(ctx=ast.Store()) | ast.List(ctx=ast.Store()):
            yield from _of_target(node)
        case _:
            yield from _of_pattern(node)


def _of_objects(node: ast.AST) -> Iterator[str]:
    """Yield objections to classes, and to what built-in code would read of objects without being counted."""
    match node:
        case ast.FunctionDef(name=name) if name in HOOKS:
            yield f"defines {name}; pass plain numbers, and write the operand of your own class first"
        case ast.Attribute(attr="args", ctx=ast.Store()):
            yield "assigns to the attribute args; choose another name"
        case ast.Attribute(attr=name) if name in ATTRIBUTES:
            yield f"uses the attribute {name}; choose another name, or keep the value yourself"
        case ast.Call(func=ast.Name(id=name)) if name in ERRORS:
            yield f"makes {name}; raise another error"
        case ast.Assign(targets=[ast.Name(id="__slots__")], value=value) if not _is_literal(value):
            yield "computes __slots__; write the names there"
        case ast.FunctionDef() | ast.ClassDef() | ast.For() | ast.While() | ast.If() | ast.Try() | ast.With():
            inner = (each for each in ast.walk(node) if isinstance(each, ast.ClassDef) and each is not node)
            yield from (f"contains the class {each.name}; define it at the top of the module" for each in inner)


def _is_literal(value: ast.expr) -> bool:
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return all(isinstance(part, ast.Constant) for part in parts)


def _computes(annotation: ast.expr) -> bool:
    plain = ast.Name | ast.Attribute | ast.Constant | ast.Subscript | ast.Tuple | ast.List | ast.BinOp | ast.BitOr
    return not all(isinstance(node, plain | ast.expr_context) for node in ast.walk(annotation))


def _of_target(node: ast.Tuple | ast.List) -> Iterator[str]:
    inner = [part for each in node.elts if isinstance(part := _bare(each), ast.Tuple | ast.List)]
    if any(has_star(part) or is_nested(part) for part in inner) or (inner and has_star(node)):
        yield "unpacks a star or three levels at once; use one statement for each level"


def _of_pattern(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.MatchStar(name=str()) | ast.MatchMapping(rest=str()):
            yield "names the rest of a pattern; use a slice or a copy"
        case ast.MatchValue(value=ast.Attribute()):
            yield "matches a value by name; compare it in an if"
        case ast.MatchMapping(keys=keys) if any(isinstance(each, ast.Attribute) for each in keys):
            yield "matches a key by name; compare it in an if"


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds, but for variables, whose names ``language`` reads."""
    match node:
        case ast.alias():
            yield (node.asname or node.name).partition(".")[0]
        case ast.Name(ctx=ast.Store() | ast.Del()):
            yield node.id
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name
        case ast.arg():
            yield node.arg
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ("__slots__", "__all__", "__version__")


def _is_method(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef)
