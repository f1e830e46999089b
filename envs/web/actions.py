"""Actions as text in BrowserGym's notation, such as ``click('12')``, parsed without running anything."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import UnparseableError
from ..messages import ToolCall

LONGEST = 20_000
"""Most characters of a text of actions."""
HOW = "Write actions such as click('12') or fill('7', 'text'), one on each line."


def read(text: str, parameters: Mapping[str, Sequence[str]]) -> tuple[ToolCall, ...]:
    """Return the actions in a text, one on each line, with or without a code block around them.

    Args:
        text: text of the agent's message.
        parameters: parameter names of each action, in order.

    Raises:
        UnparseableError: a part of the text is not an action; the message names it.
    """
    code = _inside(text)
    if len(code) > LONGEST:
        raise UnparseableError(f"This is too long. {HOW}")
    source = code.strip()
    try:
        body = ast.parse(source).body
        if not body:
            raise UnparseableError(f"There is no action in this. {HOW}")
        return tuple(_call(one, source, parameters) for one in body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnparseableError(f"This cannot be read as actions. {HOW}") from None


def _inside(text: str) -> str:
    """Return the content of the last code block, or all of the text if there is none."""
    parts = text.split("```")
    if len(parts) < 3:
        return text
    block = parts[-2]
    first, _, rest = block.partition("\n")
    return rest if first.strip().isidentifier() or not first.strip() else block


def _call(one: ast.stmt, source: str, parameters: Mapping[str, Sequence[str]]) -> ToolCall:
    if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and isinstance(one.value.func, ast.Name)):
        raise UnparseableError(f"{_written(one, source)[:80]!r} is not an action. {HOW}")
    call, name = one.value, one.value.func.id
    if name not in parameters:
        raise UnparseableError(f"There is no action {name[:40]!r}. There are {', '.join(parameters)}.")
    names = parameters[name]
    if len(call.args) > len(names):
        raise UnparseableError(f"{name} takes {len(names)} arguments: {', '.join(names)}.")
    arguments: dict[str, Any] = dict(zip(names, (_literal(arg, source, name) for arg in call.args), strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise UnparseableError(f"{name} is given an argument twice.")
        arguments[keyword.arg] = _literal(keyword.value, source, name)
    return ToolCall(name, arguments)


def _literal(node: ast.expr, source: str, name: str) -> Any:
    try:
        value = ast.literal_eval(node)
        repr(value)  # raises for a number that is too long to be printed, shown or recorded
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        said = _written(node, source)[:60]
        raise UnparseableError(f"{said!r} is not a value; {name} takes strings and numbers.") from None
    return value


def _written(node: ast.expr | ast.stmt, source: str) -> str:
    """Return the source of a node. Unparsing it would fail if it is nested too deeply or is too long a number."""
    return ast.get_source_segment(source, node) or ""
