"""Faults put into Python source: every place where one fits has a number, and the rest of the file keeps its bytes.

The operators are those of mutation testing (DeMillo, Lipton and Sayward, "Hints on test data selection", 1978), chosen
for slips that people make. Whether a mutant behaves differently at all is not guessed here: whoever uses one runs it.
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
"""Fields of nodes in which a fault would be none, or would be seen at once."""


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """One fault at one place.

    Args:
        start: where it begins, in bytes of UTF-8.
        end: where what is replaced ends.
        operator: the kind of slip, e.g. ``"comparison"``.
        after: what stands there instead.
        before: what stood there.
        line: the line of ``start``, from 1.
        scope: the function or class around it, dotted; empty at the module's top.
    """

    start: int
    end: int
    operator: str
    after: str
    before: str
    line: int
    scope: str


def mutations(source: str) -> tuple[Mutation, ...]:
    """Every fault that fits, in order of place; its index is its number, and a pure function of the source.

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
        # Only the function around it is read again: of a long file, the whole would take a second each time.
        first, last = starts[around.lineno - 1], starts[around.end_lineno or around.lineno]
        mutated = data[first : edit.start] + edit.after.encode() + data[edit.end : last]
        before = data[edit.start : edit.end].decode()
        if edit.after != before and _compiles(mutated, around.col_offset > 0):
            line = bisect_right(starts, edit.start)
            made = Mutation(edit.start, edit.end, edit.operator, edit.after, before, line, scope)
            found.setdefault((edit.start, edit.end, edit.after), made)
    return tuple(sorted(found.values()))


def mutate(source: str, chosen: Sequence[Mutation]) -> str:
    """The source with these faults in it.

    Raises:
        TaskError: two of them overlap, or one was made of another source.
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
    """The edits that fit, each with its scope and the statement around it that can be read alone."""
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
    """The offset of each line, and of the end."""
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return [*starts[:-1], len(data)]
