"""Check how clients describe their tools, before a chat template or a parser of calls reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import RequestError


def check_function(function: Mapping[str, Any], where: str) -> None:
    """Check what chat templates and parsers of calls read, after which they cannot fail for the client's sake.

    Raises:
        RequestError: the description is not a text, or the parameters are not a schema.
    """
    if not isinstance(function.get("description") or "", str):
        raise RequestError(f"{where} has a description that is not text", param=where)
    if function.get("parameters") is not None:
        _check_schema(function["parameters"], where)


def _check_schema(schema: Any, where: str) -> None:
    if isinstance(schema, bool):
        return
    wrong = RequestError(f"{where} has parameters that are not a JSON schema", param=where)
    if not isinstance(schema, dict):
        raise wrong
    tables = [schema.get(name, {}) for name in ("properties", "$defs")]
    lists = [schema.get(name, []) for name in ("anyOf", "oneOf", "allOf", "enum", "required")]
    kinds = schema.get("type", [])
    if not all(isinstance(each, dict) for each in tables) or not all(isinstance(each, list) for each in lists):
        raise wrong
    if not isinstance(kinds, str | list) or not all(isinstance(kind, str) for kind in kinds):
        raise wrong
    for part in (*(one for each in tables for one in each.values()), *(one for each in lists[:3] for one in each)):
        _check_schema(part, where)
    _check_schema(schema.get("items", True), where)
