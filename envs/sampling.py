"""Random arguments that fit a JSON Schema: what an agent without a clue would send to a tool."""

from __future__ import annotations

from typing import Any

from ..tasks.rng import Rng


def random_arguments(schema: dict[str, Any], rng: Rng) -> dict[str, Any]:
    """Arguments for a tool whose parameters are ``schema``; optional ones are given half of the time."""
    required = set(schema.get("required", ()))
    definitions = schema.get("$defs", {})
    return {
        name: _value(part, definitions, rng)
        for name, part in schema.get("properties", {}).items()
        if name in required or rng.random() < 0.5
    }


def _value(schema: dict[str, Any], definitions: dict[str, Any], rng: Rng) -> Any:
    if "$ref" in schema:
        return _value(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions, rng)
    for choices in ("anyOf", "oneOf"):
        if choices in schema:
            return _value(rng.pick(schema[choices]), definitions, rng)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.pick(schema["enum"])
    match schema.get("type"):
        case "integer":
            return rng.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 100)))
        case "number":
            return round(rng.uniform(schema.get("minimum", 0), schema.get("maximum", 100)), 3)
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_value(schema.get("items", {}), definitions, rng) for _ in range(rng.randrange(3))]
        case "object":
            return random_arguments({**schema, "$defs": definitions}, rng)
        case "null":
            return None
    return rng.pick(("a", "alpha", "test", "1", "the red one"))
