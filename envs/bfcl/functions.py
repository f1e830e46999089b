"""The suite's functions as tools: its descriptions become JSON Schema, and arguments are held to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Protocol

import pydantic

from ...tasks.bfcl.suite import descriptions
from ..tools import PREFIX, Tool

LARGEST = 10**15
"""No whole number in an argument is larger than this; nobody needs one, and arithmetic on one can take for ever."""
SMALLER: Mapping[tuple[str, str], int] = {
    ("logarithm", "precision"): 1_000,
    ("square_root", "precision"): 1_000,
    ("round_number", "decimal_places"): 1_000,
    ("power", "exponent"): 10_000,
}
"""Parameters that say how long a computation takes."""
ALSO_TEXT = {("close_ticket", "ticket_id")}
"""The suite's own answers give text where its description says integer."""
NAMES = {"dict": "object", "float": "number"}
"""What the suite calls otherwise than JSON Schema does."""
UNSET: Any = object()


class Callee(Protocol):
    """What runs a call."""

    def called(self, function: str, arguments: dict[str, Any]) -> str:
        """The answer to a call whose arguments fit."""


def functions_of(classes: Iterable[str], *, without: frozenset[str] = frozenset()) -> tuple[Tool, ...]:
    """The functions of some classes in the suite's order, unbound, ``without`` those held back."""
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
    """The suite's dialect as JSON Schema. A default of ``"None"`` is a slip for none at all, and left out."""
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
    """What validates: strictly, since the suite converts nothing. ``1`` is no text, ``"1"`` no number."""
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
