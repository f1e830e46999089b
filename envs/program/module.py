"""Tools as Python functions: their names in programs, and the source of the module that programs import."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ContractError
from ..messages import ToolCall
from ..tools import Tool

INSIDE = Path(__file__).with_name("inside.py")
"""Names that every such module defines."""
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}
SHOWN = 12
"""Most values of an enumeration to name in a description."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a tool in Python.

    Args:
        name: its name in the tool.
        python: the same name, or the nearest valid name in Python.
        schema: its JSON Schema.
        required: whether it must be given.
    """

    name: str
    python: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def default(self) -> str:
        """Default in the signature, for an omitted argument."""
        default = self.schema.get("default", ...)
        return repr(default) if _is_literal(default) else "..."

    def __str__(self) -> str:
        kind = TYPES.get(str(self.schema.get("type")), "")
        typed = f"{self.python}: {kind}" if kind else self.python
        return typed if self.required else f"{typed} = {self.default}" if kind else f"{typed}={self.default}"

    @property
    def about(self) -> str:
        """One-line description of the parameter."""
        values = self.schema.get("enum") or ()
        named = f"one of {', '.join(map(repr, values[:SHOWN]))}{', …' if len(values) > SHOWN else ''}"
        text = " ".join(str(self.schema.get("description") or "").split())
        return "; ".join(filter(None, (text.removesuffix("."), named if values else "")))


@dataclass(frozen=True, slots=True)
class Function:
    """A tool as a Python function.

    Args:
        tool: the tool that it calls.
        path: its path in the module, such as ``("mail", "search")``.
        parameters: those without a default first.
    """

    tool: Tool
    path: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def signature(self) -> str:
        """Signature, such as ``mail.search(query: str, limit: int = 10)``."""
        return f"{'.'.join(self.path)}({', '.join(map(str, self.parameters))})"

    @property
    def documentation(self) -> str:
        """The text that ``help`` shows."""
        lines = [f"    {one.python}: {one.about}" for one in self.parameters if one.about]
        return "\n".join([self.tool.description, *(["", "Args:", *lines] if lines else [])])

    def source(self, number: int) -> str:
        """Return its definition, as ``function_NUMBER``."""
        given = ", ".join(f"{one.name!r}: {one.python}" for one in self.parameters)
        left = ", ".join(f"{one.name!r}: {one.default}" for one in self.parameters if not one.required)
        head = f"def function_{number}({', '.join(map(str, self.parameters))}):"
        return f"{head}\n    {self.documentation!r}\n    return call({self.tool.name!r}, {{{given}}}, {{{left}}})\n"


def function_of(tool: Tool, groups: Iterable[str] = ()) -> Function:
    """Return a tool as a Python function.

    Args:
        tool: the tool that it calls.
        groups: words that a tool's name may begin with, with ``_`` behind them: each is a namespace of its tools, which
            are also found by their whole names. Of several words that fit the longest is taken.
    """
    group = max((one for one in groups if tool.name.startswith(f"{one}_")), key=len, default="")
    name = tool.name[len(group) + 1 :] if group else tool.name
    path = (*([_name(group)] if group else []), _name(name))
    required = set(tool.parameters.get("required", ()))
    found, taken = list[Parameter](), {"call"}  # which the body of every function calls
    for each, schema in tool.parameters.get("properties", {}).items():
        python = _name(each)
        while python in taken:
            python += "_"
        taken.add(python)
        found.append(Parameter(each, python, schema if isinstance(schema, dict) else {}, each in required))
    return Function(tool, path, tuple(sorted(found, key=lambda one: not one.required)))


class Module:
    """Return the source of the module by which a program calls tools.

    Args:
        tools: its tools.
        groups: see ``function_of``.
        name: its name in programs.

    Raises:
        ContractError: two tools, or a tool and a group, would have one name in Python.
    """

    def __init__(self, tools: Sequence[Tool], groups: Iterable[str] = (), name: str = "apis") -> None:
        self.name, groups = name, tuple(groups)
        self.functions = tuple(function_of(tool, groups) for tool in tools)
        self._by_tool = {function.tool.name: function for function in self.functions}
        paths = [function.path for function in self.functions]
        spaces = {path[:1] for path in paths if len(path) > 1}
        for path in paths:
            if paths.count(path) > 1 or path in spaces or path == ("ApiError",):
                raise ContractError(
                    f"two functions would have the name {name}.{'.'.join(path)} in a program; rename a tool"
                )

    def source(self) -> str:
        """Return code that creates the module, and defines it and ``ApiError`` in the program's namespace."""
        defined = [function.source(number) for number, function in enumerate(self.functions)]
        paths = ", ".join(
            f"({function.path!r}, {_name(function.tool.name)!r}, function_{n})"
            for n, function in enumerate(self.functions)
        )
        about = f"Tools as functions. help({self.name}.NAME) tells more of one."
        inside = "\n".join([INSIDE.read_text("utf-8"), *defined, f"publish({self.name!r}, {about!r}, [{paths}])"])
        return (
            f"exec(compile({inside!r}, '<host {self.name}>', 'exec'), {{'__name__': {self.name!r}}})\n"
            f"import {self.name}\nfrom {self.name} import ApiError"
        )

    def line(self, call: ToolCall) -> str:
        """Return a call as a line of Python that prints the result."""
        function = self._by_tool.get(str(call.name))
        names = {one.name: one.python for one in function.parameters} if function else {}
        path = ".".join(function.path) if function else _name(str(call.name))
        given = dict(call.arguments) if isinstance(call.arguments, Mapping) else {"arguments": call.arguments}
        arguments = ", ".join(f"{names.get(name) or _name(str(name))}={value!r}" for name, value in given.items())
        return f"print({self.name}.{path}({arguments}))"

    def manual(self, most: int = 6000) -> str:
        """List its functions, one per line, with the first line of their descriptions if those fit.

        Args:
            most: characters.
        """
        long = [f"{self.name}.{one.signature}: {one.tool.description.splitlines()[0]}" for one in self.functions]
        short = [f"{self.name}.{one.signature}" for one in self.functions]
        names = [f"{self.name}.{'.'.join(one.path)}" for one in self.functions]
        fits = [text for text in map("\n".join, (long, short, names)) if len(text) <= most]
        return fits[0] if fits else f"{len(names)} functions; dir({self.name}) names them."


def _is_literal(value: Any) -> bool:
    """Return whether Python parses a value's ``repr`` as that value."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _name(text: str) -> str:
    """Return the valid name in Python that is nearest to a text."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    word = f"_{word}" if word[0].isdigit() else word
    return f"{word}_" if keyword.iskeyword(word) or word in ("__debug__", "None") else word
