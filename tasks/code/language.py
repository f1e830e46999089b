"""What submitted source may say, read from its syntax tree outside the sandbox; nothing is run to find out.

Where a check believes what the process says that the submitted code itself runs in (counted work, unit tests), that
code must not get at the machinery around it. Python offers too many ways to refuse them one by one while it runs, so
the source is held to a smaller language before. It is no sandbox: it keeps honest what runs in one.
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
"""Built-in and library names by which code reaches what it does not name."""
_METHODS = """
    init new post_init len iter next reversed contains getitem setitem delitem missing call bool int float index
    eq ne lt le gt ge hash repr str format abs neg pos invert round floor ceil trunc divmod rdivmod enter exit
    length_hint copy deepcopy
    add sub mul matmul truediv floordiv mod pow lshift rshift and or xor
    radd rsub rmul rmatmul rtruediv rfloordiv rmod rpow rlshift rrshift rand ror rxor
    iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor
"""
PROTOCOLS = frozenset(f"__{name}__" for name in _METHODS.split())
"""Special methods that a class may have; others are hooks of the interpreter."""
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
"""Names with two underscores on both sides that say nothing but what they say."""


@dataclass(frozen=True, slots=True)
class Language:
    """What a file may say.

    Args:
        imports: modules by their full name; relative ones as they are written, e.g. ``".tokens"``.
        names: names of ``REFLECTION`` and ``MACHINERY``, and special ones, that it may use nevertheless.
        methods: whether it may define methods with special names, such as ``__init__``.
        metered: whether its work is counted, so that it may say nothing that the counting does not see.
    """

    imports: frozenset[str]
    names: frozenset[str] = frozenset()
    methods: bool = True
    metered: bool = False


PURE = Language(
    frozenset({"__future__", "math", "heapq", "bisect", "itertools", "functools", "operator"})
    | {"collections", "collections.abc"}
)
"""Plain algorithms: no input, no output, no way to look at or change what runs them."""
METERED = replace(PURE, metered=True)
"""The same, in a form whose work can be counted."""


def as_in(source: str) -> Language:
    """The language of a source: whoever changes it may use what it uses.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(source)
    suspicious = {name for name, _ in _names(tree) if _is_suspicious(name)}
    return Language(frozenset(name for name, _ in _imports(tree)), frozenset(suspicious))


def objections(source: bytes, language: Language) -> tuple[str, ...]:
    """What a source says that it may not, in words, in the order of its lines; nothing if it is within the language."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        if encoding not in ("utf-8", "utf-8-sig"):  # or what is read here is not what Python reads
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
    """Names that are used, as a variable, an attribute or the whole of a text; not those that are merely defined.

    What has no name has one here: a positional class pattern asks for attributes by computed names
    (``__match_args__``), and so does whatever makes a class of computed names (``__metaclass__``).
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
