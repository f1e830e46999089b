"""Read JSON from servers and models within bounds: depth, size of numbers, no NaN."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

DEEPEST = 100
"""The deepest nesting of JSON that is accepted from a server. Deeper values break copying, storing and printing."""
LARGEST = 2**63 - 1
"""The largest integer that is accepted from a server: what a file of episodes can hold."""


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which Python's ``json`` reads: its ``parse_constant``."""
    raise ValueError(f"{name} is not JSON")


def loads(source: str | bytes, *, largest: float = LARGEST) -> Any:
    """JSON that is no deeper than ``DEEPEST``, and whose numbers are finite and not too large.

    Args:
        source: JSON in UTF-8.
        largest: absolute value of a number; ``inf`` for what a model wrote, whose numbers are its own affair.

    Raises:
        ValueError: it is not.
    """
    try:
        value = json.loads(source, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level: list[Any] = [value]
    for _ in range(DEEPEST):
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
