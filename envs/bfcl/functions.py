"""The suite's functions as tools: its descriptions become JSON Schema, which validates the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Protocol

import pydantic

from ...tasks.bfcl.suite import descriptions
from ..tools import PREFIX, Tool

LARGEST = 10**15
"""Largest absolute value of an integer argument. No task needs more, and arithmetic on huge integers may never end."""
SMALLER: Mapping[tuple[str, str], int] = {
    ("logarithm", "precision"): 1_000,
    ("square_root", "precision"): 1_000,
    ("round_number", "decimal_places"): 1_000,
    ("power", "exponent"): 10_000,
}
"""Parameters that determine how long a computation takes, with their largest absolute values."""
ALSO_TEXT = {("close_ticket", "ticket_id")}
"""Integer parameters that also accept text, because the suite's own answers pass text for them."""
NAMES = {"dict": "object", "float": "number"}
"""Types of the suite whose names in JSON Schema differ."""
UNSET: Any = object()


class Callee(Protocol):
    """The object that runs the calls of these tools, such as an environment."""

    def called(self, function: str, arguments: dict[str, Any]) -> str:
        """Run a call with valid arguments and return its answer."""


def functions_of(classes: Iterable[str], *, without: frozenset[str] = frozenset()) -> tuple[Tool, ...]:
    """Return the functions of some classes, except ``without``, as unbound tools in the suite's order."""
    return tuple(tool for name in classes for tool in _functions(name) if tool.name not in without)


@lru_cache(maxsize=16)
def _functions(name: str) -> tuple[Tool, ...]:
    return tuple(_tool(entry) for entry in descriptions(name))


def _tool(entry: Mapping[str, Any]) -> Tool:
    name, given = entry["name"], entry["parameters"]
    parameters = _schema(given, name)
    return Tool(name, entry["description"], parameters, _model(name, given), _runs(name))


def _runs(name: str) -> Callable[..., str]:
    def run(env: Callee, **arguments: Any) -> str:
        given = {word: value for word, value in arguments.items() if value is not UNSET}
        return env.called(name, {word: _plain(value) for word, value in given.items()})

    run.__name__ = name
    return run


def _plain(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        return {word.removeprefix(PREFIX): getattr(value, word) for word in value.model_fields_set}
    return value


def _schema(given: Mapping[str, Any], function: str, parameter: str = "") -> dict[str, Any]:
    """Translate the suite's dialect to JSON Schema. A default of ``"None"`` is the suite's spelling of no default."""
    kind = NAMES.get(given["type"], given["type"])
    schema: dict[str, Any] = {"type": ["integer", "string"] if (function, parameter) in ALSO_TEXT else kind}
    schema |= {word: given[word] for word in ("description", "default") if given.get(word, "None") != "None"}
    if kind == "object":
        schema["properties"] = {name: _schema(part, function, name) for name, part in given["properties"].items()}
        schema["required"] = list(given.get("required", ()))
        schema["additionalProperties"] = False
    if kind == "array":
        schema["items"] = _schema(given["items"], function)
    return schema


def _model(name: str, given: Mapping[str, Any]) -> type[pydantic.BaseModel]:
    """Return the pydantic model that validates arguments.

    It is strict, because the suite converts nothing: ``1`` is not text, and ``"1"`` is not a number.
    """
    required = set(given.get("required", ()))
    fields: dict[str, Any] = {
        f"{PREFIX}{word}": (_type(part, name, word), pydantic.Field(... if word in required else UNSET, alias=word))
        for word, part in given["properties"].items()
    }
    config = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return pydantic.create_model(f"{name}_arguments", __config__=config, **fields)


def _type(given: Mapping[str, Any], function: str, parameter: str) -> Any:
    limit = SMALLER.get((function, parameter), LARGEST)
    integer = Annotated[int, pydantic.Field(ge=-limit, le=limit)]
    match given["type"]:
        case "integer":
            return integer | str if (function, parameter) in ALSO_TEXT else integer
        case "float" if (function, parameter) in SMALLER:
            return integer | Annotated[float, pydantic.Field(ge=-limit, le=limit)]
        case "float":
            return integer | float
        case "boolean":
            return bool
        case "array":
            return list[_type(given["items"], function, "")]  # type: ignore[misc]
        case "dict":
            return _model(f"{function}_{parameter}", given)
    return str
