"""Restrictions on submitted source, checked in its syntax tree outside of the sandbox; nothing is run.

Some checks trust the process that runs the submitted code (counted work, unit tests). That code must not reach the
interpreter's internals. Python offers too many ways to refuse them one by one at run time, so the source is first
restricted to a smaller language. This is not a sandbox: it keeps the code inside of one honest.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .metered import uncounted

REFLECTION = frozenset(
    {"exec", "eval", "compile", "globals", "locals", "vars", "open", "input", "breakpoint", "getattr", "setattr"}
    | {"delattr", "dir", "memoryview", "attrgetter", "methodcaller"}
    | {"update_wrapper", "wraps", "WRAPPER_ASSIGNMENTS", "WRAPPER_UPDATES"}
)
"""Built-in and library names by which code reaches objects without naming them."""
_METHODS = """
    init new post_init len iter next reversed contains getitem setitem delitem missing call bool int float index
    eq ne lt le gt ge hash repr str format abs neg pos invert round floor ceil trunc divmod rdivmod enter exit
    length_hint copy deepcopy
    add sub mul matmul truediv floordiv mod pow lshift rshift and or xor
    radd rsub rmul rmatmul rtruediv rfloordiv rmod rpow rlshift rrshift rand ror rxor
    iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor
"""
PROTOCOLS = frozenset(f"__{name}__" for name in _METHODS.split())
"""Special methods that a class may define; others are hooks of the interpreter."""
MACHINERY = frozenset(
    {"sys", "os", "builtins", "gc", "inspect", "ctypes", "importlib", "threading", "subprocess"}
    | {"pytest", "unittest", "doctest", "atexit", "traceback", "faulthandler", "pdb", "runpy", "pickle", "marshal"}
    | {"multiprocessing", "concurrent", "asyncio", "linecache", "tracemalloc", "pkgutil"}
    | {"f_back", "f_globals", "f_locals", "f_code", "f_builtins", "f_trace", "tb_frame", "tb_next", "gi_frame"}
    | {"gi_code", "cr_frame", "ag_frame", "modules", "settrace", "setprofile", "gettrace", "_getframe", "func_globals"}
    | {"addaudithook", "excepthook", "unraisablehook", "meta_path", "path_hooks", "co_consts", "setrecursionlimit"}
)
"""Names of modules and attributes that lead out of a program, into the interpreter that runs it."""
SPECIAL = frozenset({"__name__", "__doc__", "__all__", "__slots__", "__version__", "__annotations__"})
"""Names with two underscores on both sides that only hold information."""


@dataclass(frozen=True, slots=True)
class Language:
    """The language that a file may use.

    Args:
        imports: modules by their full name; relative ones as in the source, e.g. ``".tokens"``.
        names: names of ``REFLECTION`` and ``MACHINERY``, and special names, that it may use nevertheless.
        methods: whether it may define methods with special names, such as ``__init__``.
        metered: whether its work is counted, so that it must avoid everything that the counter does not see.
    """

    imports: frozenset[str]
    names: frozenset[str] = frozenset()
    methods: bool = True
    metered: bool = False


PURE = Language(
    frozenset({"__future__", "math", "heapq", "bisect", "itertools", "functools", "operator"})
    | {"collections", "collections.abc"}
)
"""Plain algorithms: no input or output, and no access to the interpreter that runs them."""
METERED = replace(PURE, metered=True)
"""The same language without anything whose work cannot be counted."""


def as_in(source: str) -> Language:
    """Return the smallest language that allows a source, so that a changed source may use what the original uses.

    Raises:
        SyntaxError: the source is not Python.
    """
    tree = ast.parse(source)
    suspicious = {name for name, _ in _names(tree) if _is_suspicious(name)}
    return Language(frozenset(name for name, _ in _imports(tree)), frozenset(suspicious))


def objections(source: bytes, language: Language) -> tuple[str, ...]:
    """Describe each violation of the language in a source, in the order of its lines; empty if there is none."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        if encoding not in ("utf-8", "utf-8-sig"):  # otherwise Python may read another text
            return (f"it is written in {encoding}, not in utf-8",)
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return (f"it does not compile: {error}",)
    found: list[tuple[int, str]] = []
    for name, line in _imports(tree):
        if name not in language.imports:
            found.append((line, f"line {line} imports {name}"))
    for name, line in _names(tree):
        if _is_suspicious(name) and name not in language.names:
            found.append((line, f"line {line} uses {name}"))
    if not language.methods:
        found += [(line, f"line {line} defines {name}") for name, line in _methods(tree)]
    if language.metered:
        found += uncounted(tree)
    return tuple(dict.fromkeys(text for _, text in sorted(found)))


def _is_suspicious(name: str) -> bool:
    special = name.startswith("__") and name.endswith("__") and name not in SPECIAL
    return special or name in REFLECTION or name.lstrip("_") in MACHINERY or name in MACHINERY


def _imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module, node.lineno
            for alias in node.names:
                if _is_suspicious(alias.name) or alias.name == "*" or alias.name.startswith("_"):
                    yield f"{module}{'' if module.endswith('.') else '.'}{alias.name}", node.lineno


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that are used, as a variable, an attribute or a whole string, and not those only defined.

    Some constructs stand for a name: a positional class pattern reads attributes by computed names
    (``__match_args__``), and code that creates a class under a computed name is reported as ``__metaclass__``.
    """
    kinds = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="type") if id(node) not in kinds:
                yield "__metaclass__", node.lineno
            case ast.keyword(arg="metaclass"):
                yield "__metaclass__", node.lineno
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_hook(node.name):
                yield node.name, node.lineno
            case ast.Name():
                yield node.id, node.lineno
            case ast.Attribute():
                yield node.attr, node.lineno
            case ast.Constant(value=str() as text) if text.isidentifier() and text.startswith("_"):
                yield text, node.lineno
            case ast.Global() | ast.Nonlocal():
                yield from ((name, node.lineno) for name in node.names)
            case ast.arg():
                yield node.arg, node.lineno
            case ast.MatchClass():
                yield from ((name, node.lineno) for name in node.kwd_attrs)
                yield from (("__match_args__", node.lineno) for _ in node.patterns[:1])


def _is_hook(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in PROTOCOLS


def _methods(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _is_suspicious(node.name):
            yield node.name, node.lineno
