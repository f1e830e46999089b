"""Read JSON from servers and models within bounds: depth, size of numbers, no NaN."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 100
"""Maximum nesting of JSON from a server. Deeper values break copying, storing and printing."""
MAX_INTEGER = 2**63 - 1
"""Largest integer from a server: the largest that a file of episodes can store."""


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which Python's ``json`` accepts; pass it as ``parse_constant``."""
    raise ValueError(f"{name} is not JSON")


def loads(source: str | bytes, *, largest: float = MAX_INTEGER) -> Any:
    """Parse JSON that is nested at most ``MAX_DEPTH`` levels deep and whose numbers are finite and not too large.

    Args:
        source: JSON in UTF-8.
        largest: largest absolute value of a number; ``inf`` for text that a model wrote, whose numbers are not bounded.

    Raises:
        ValueError: the text is not such JSON.
    """
    try:
        value = json.loads(source, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        for each in level:
            if isinstance(each, int | float) and not (-largest <= each <= largest and abs(each) != math.inf):
                raise ValueError("a number is too large")
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    raise ValueError("nested too deeply")
