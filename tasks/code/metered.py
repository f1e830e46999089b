"""What source may not say where its work is counted, because the counting would not see what it does.

The rest is decided while it runs: see ``efficiency/meter``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator


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
