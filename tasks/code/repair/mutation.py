"""Mutations of Python source: every fault that fits has a number, and the rest of the file keeps its bytes.

The operators are those of mutation testing (DeMillo, Lipton and Sayward, "Hints on test data selection", 1978),
restricted to slips that people make. A mutant may behave like the original; callers run it to find out.
"""

from __future__ import annotations

import ast
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....errors import TaskError
from .operators import Edit, Function, edits_of

UNTOUCHED = ("annotation", "returns", "decorator_list", "bases")
"""Fields of nodes in which a mutation would change nothing, or would be noticed at once."""


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """One fault at one place.

    Args:
        start: offset of its first byte in UTF-8.
        end: offset after its last byte.
        operator: kind of slip, e.g. ``"comparison"``.
        after: text that replaces the original.
        before: original text.
        line: line number of ``start``, from 1.
        scope: dotted name of the enclosing function or class; empty at the top level.
    """

    start: int
    end: int
    operator: str
    after: str
    before: str
    line: int
    scope: str


def mutations(source: str) -> tuple[Mutation, ...]:
    """Return every fault that fits, in order of position; its index is its number, a pure function of the source.

    Raises:
        TaskError: the source is not Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"cannot mutate a source that does not compile: {error}") from None
    data = source.encode()
    starts = line_starts(data)
    found: dict[tuple[int, int, str], Mutation] = {}
    for scope, around, edit in _edits(tree, data, starts):
        # Compile only the enclosing statement: the whole of a long file would take a second for each fault.
        first, last = starts[around.lineno - 1], starts[around.end_lineno or around.lineno]
        mutated = data[first : edit.start] + edit.after.encode() + data[edit.end : last]
        before = data[edit.start : edit.end].decode()
        if edit.after != before and _compiles(mutated, around.col_offset > 0):
            line = bisect_right(starts, edit.start)
            made = Mutation(edit.start, edit.end, edit.operator, edit.after, before, line, scope)
            found.setdefault((edit.start, edit.end, edit.after), made)
    return tuple(sorted(found.values()))


def mutate(source: str, chosen: Sequence[Mutation]) -> str:
    """Return the source with some faults injected.

    Raises:
        TaskError: two of them overlap, or one belongs to another source.
    """
    data = source.encode()
    ordered = sorted(chosen)
    for one, other in itertools.pairwise(ordered):
        if other.start < one.end or (other.start, other.end) == (one.start, one.end):
            raise TaskError(f"the mutations in lines {one.line} and {other.line} overlap; choose others")
    for mutation in ordered:
        if data[mutation.start : mutation.end] != mutation.before.encode():
            raise TaskError(f"the mutation in line {mutation.line} belongs to another source")
    return _replaced(data, ordered)


def _replaced(data: bytes, ordered: Sequence[Mutation]) -> str:
    for mutation in reversed(ordered):
        data = data[: mutation.start] + mutation.after.encode() + data[mutation.end :]
    return data.decode()


def _compiles(mutated: bytes, indented: bool) -> bool:
    try:
        ast.parse(b"if True:\n" + mutated if indented else mutated)
    except (SyntaxError, ValueError):
        return False
    return True


def _edits(tree: ast.Module, data: bytes, starts: Sequence[int]) -> Iterator[tuple[str, ast.stmt, Edit]]:
    """Yield the edits that fit, each with its scope and the enclosing statement that can be compiled alone."""
    waiting: list[tuple[ast.AST, str, ast.stmt, Function | None]] = [(part, "", part, None) for part in tree.body]
    while waiting:
        node, scope, around, function = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            scope = f"{scope}.{node.name}" if scope else node.name
            function = None if isinstance(node, ast.ClassDef) else node
            around = around if isinstance(node, ast.ClassDef) else node
        for edit in edits_of(node, function, data, starts):
            yield scope, around, edit
        for name, value in ast.iter_fields(node):
            if name not in UNTOUCHED:
                inner = value if isinstance(value, list) else [value]
                waiting += [(child, scope, around, function) for child in inner if isinstance(child, ast.AST)]


def line_starts(data: bytes) -> list[int]:
    """Return the offset of each line, and of the end."""
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return [*starts[:-1], len(data)]
