"""Random arguments that fit a JSON Schema, like those of an agent without a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tasks.rng import Rng
from .messages import ActionLike, ToolCall
from .tools import Tool

TEXTS = ("a", "alpha", "test", "1", "the red one")
DEPTH = 6
"""Most levels of nesting; below, lists are empty, optional parts omitted, and unions take their simplest member."""


def random_call_or_text(tools: Sequence[Tool], rng: Rng) -> ActionLike:
    """Return a random call that fits the tools' schemas, or now and then, and always without tools, a text."""
    if tools and rng.random() < 0.9:
        tool = rng.pick(tools)
        return ToolCall(tool.name, random_arguments(tool.parameters, rng))
    return rng.pick(("yes", "no", "1", "I am done."))


def random_arguments(schema: dict[str, Any], rng: Rng) -> dict[str, Any]:
    """Return arguments for a tool whose parameters are ``schema``; each optional one with probability 1/2.

    Types, enumerations, numeric bounds, lengths and nesting are respected; ``pattern`` and ``format`` are not.
    """
    return _object(schema, schema.get("$defs", {}), rng, 0)


def _object(schema: dict[str, Any], definitions: dict[str, Any], rng: Rng, depth: int) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    return {
        name: _value(part, definitions, rng, depth + 1)
        for name, part in schema.get("properties", {}).items()
        if name in required or (depth < DEPTH and rng.random() < 0.5)
    }


def _value(schema: dict[str, Any], definitions: dict[str, Any], rng: Rng, depth: int) -> Any:
    if "$ref" in schema:
        return _value(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions, rng, depth)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            choices = schema[union]
            if depth >= DEPTH:
                choices = sorted(choices, key=lambda choice: "$ref" in choice or choice.get("type") == "object")[:1]
            return _value(rng.pick(choices), definitions, rng, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.pick(schema["enum"])
    match schema.get("type"):
        case "integer":
            return _integer(schema, rng)
        case "number":
            low, high = _bounds(schema)
            return low + (high - low) * rng.uniform(0.001, 0.999)
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return _array(schema, definitions, rng, depth)
        case "object":
            return _object(schema, definitions, rng, depth)
        case "null":
            return None
    text = rng.pick(TEXTS)
    return text.ljust(schema.get("minLength", 0), "a")[: schema.get("maxLength")]


def _array(schema: dict[str, Any], definitions: dict[str, Any], rng: Rng, depth: int) -> list[Any]:
    first = [_value(part, definitions, rng, depth + 1) for part in schema.get("prefixItems", ())]
    least = max(schema.get("minItems", 0), len(first))
    most = min(schema.get("maxItems", least + 2), least if depth >= DEPTH else least + 2)
    more = rng.randint(least, most) - len(first)
    return first + [_value(schema.get("items") or {}, definitions, rng, depth + 1) for _ in range(more)]


def _bounds(schema: dict[str, Any]) -> tuple[float, float]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = 0 if high is None or high > 0 else high - 100
    return float(low), float(low + 100 if high is None else high)


def _integer(schema: dict[str, Any], rng: Rng) -> int:
    low, high = (int(bound) for bound in _bounds(schema))
    low += schema.get("exclusiveMinimum") == low
    high -= schema.get("exclusiveMaximum") == high
    return rng.randint(low, max(low, high))
