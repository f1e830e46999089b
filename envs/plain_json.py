"""``plain``: values of environments as JSON types, in stores and frames alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Convert numpy scalars and arrays, and mappings other than dicts, to JSON types."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} {value!r:.60}")


def not_json(info: Mapping[str, Any]) -> str:
    """Return the part of an ``info`` that no store can hold, or ``""`` if there is none."""
    try:
        json.dumps(dict(info), default=plain)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""
