"""Values as text, type by type: what is compared when code is graded.

This file is used on both sides: by the trusted process, and, copied, inside the sandbox (so it imports nothing of
ours, and runs on Python 3.8). Equal text means: the same types all the way down, and the same contents. A subclass, an
object with an ``__eq__`` of its own, or anything that is not plain data has a text that no expected value has.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

LARGEST = 200_000
"""Parts of a value beyond which it is not written out."""
DEEPEST = 100
SHORT = 400
"""Characters of a text beyond which its hash stands for it on the way out of a sandbox."""

_type, _str, _len, _sorted, _float_hex, _dumps = type, str, len, sorted, float.hex, json.dumps
"""Taken before any submitted code runs: replacing the built-in ones later changes nothing here."""


class Unplain(Exception):
    """A value that is not plain data; the argument says which type is in the way."""


def encode(value: object) -> str:
    """The canonical text of plain data: None, bool, int, float, str, bytes, list, tuple, dict, set and frozenset.

    The order of dicts and sets does not matter; -0.0 and 0.0 differ, and every NaN is the same.

    Raises:
        Unplain: it holds anything else, itself, or too much.
    """
    return _dumps(_encoded(value, [LARGEST], 0), separators=(",", ":"))


def encode_error(error: BaseException) -> str:
    """The canonical text of an exception: its exact type, and not its message."""
    kind = _type(error)
    return raises(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def raises(name: str) -> str:
    """The canonical text of an exception by its type's name, e.g. ``"ValueError"``."""
    return _dumps(["raises", name], separators=(",", ":"))


def shortened(text: str) -> str:
    """A text as it leaves a sandbox: itself, or a hash of it and how it begins."""
    if _len(text) <= SHORT:
        return text
    return _dumps(["hash", hashlib.sha256(text.encode()).hexdigest(), text[: SHORT // 2]], separators=(",", ":"))


def _encoded(value: Any, left: list[int], depth: int) -> list[object]:
    left[0] -= 1
    if left[0] < 0 or depth > DEEPEST:
        raise Unplain("too much, or itself")
    kind = _type(value)
    if value is None:
        return ["None"]
    if kind is bool or kind is int:
        return [kind.__name__, _int_text(value)]
    if kind is float:
        return ["float", _float_hex(value)]
    if kind is str:
        return ["str", value]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is list or kind is tuple:
        return [kind.__name__, [_encoded(item, left, depth + 1) for item in value]]
    if kind is set or kind is frozenset:
        items = [_encoded(item, left, depth + 1) for item in value]
        return [kind.__name__, _sorted(items, key=_dumps)]
    if kind is dict:
        pairs = [[_encoded(key, left, depth + 1), _encoded(item, left, depth + 1)] for key, item in value.items()]
        return ["dict", _sorted(pairs, key=_dumps)]
    raise Unplain(kind.__qualname__)


def _int_text(value: object) -> str:
    return format(value, "x") if _type(value) is int else _str(value)  # hexadecimal: no limit on digits


def shown(text: str, limit: int = 200) -> str:
    """A canonical text as Python would write the value, for people; at most ``limit`` characters."""
    try:
        written = _written(json.loads(text))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        written = text
    return written if _len(written) <= limit else written[: limit - 1] + "…"


def _written(part: Any) -> str:
    kind, *rest = part
    inside: Any = rest[0] if rest else None
    if kind in ("None", "str", "bool"):
        return "None" if kind == "None" else _str(inside) if kind == "bool" else repr(inside)
    if kind == "int":
        return _str(int(inside, 16))
    if kind == "float":
        return repr(float.fromhex(inside))
    if kind == "bytes":
        return repr(bytes.fromhex(inside))
    if kind == "dict":
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in inside) + "}"
    if kind in ("list", "tuple", "set", "frozenset"):
        items = ", ".join(map(_written, inside))
        if kind == "tuple":
            return f"({items},)" if _len(inside) == 1 else f"({items})"
        return f"[{items}]" if kind == "list" else f"{kind}([{items}])"
    return {"raises": f"raises {inside}", "unplain": f"an object that is no plain data ({inside})"}.get(
        _str(kind), "a value too long to show"
    )
