"""Values as canonical text, which grading compares type by type.

Both sides use this file: the trusted process, and a copy inside the sandbox (so it imports nothing from Turnwise and
runs on Python 3.8). Equal text means the same types at every depth, and the same contents. A subclass, an object with
its own ``__eq__``, or anything else that is not plain data has a text that no expected value has.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

LARGEST = 200_000
"""Most parts of a value to encode."""
DEEPEST = 100
SHORT = 400
"""Most characters of a text that leaves a sandbox; a hash stands for a longer one."""

_type, _str, _len, _sorted, _float_hex, _dumps = type, str, len, sorted, float.hex, json.dumps
"""References taken before submitted code runs, so that replacing the built-in functions later has no effect here."""


class Unplain(Exception):
    """A value that is not plain data; the argument names the offending type."""


def encode(value: object) -> str:
    """Return the canonical text of plain data: None, bool, int, float, str, bytes, list, tuple, dict, set, frozenset.

    The order of dicts and sets does not matter; -0.0 and 0.0 differ, and every NaN is the same.

    Raises:
        Unplain: the value contains anything else, itself, or too many parts.
    """
    return _dumps(_encoded(value, [LARGEST], 0), separators=(",", ":"))


def encode_error(error: BaseException) -> str:
    """Return the canonical text of an exception: its exact type, without its message."""
    kind = _type(error)
    return raises(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def raises(name: str) -> str:
    """Return the canonical text of an exception by its type's name, e.g. ``"ValueError"``."""
    return _dumps(["raises", name], separators=(",", ":"))


def shortened(text: str) -> str:
    """Return a text as it leaves a sandbox: the text itself, or its hash and its beginning."""
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
    """Return a canonical text as the Python source of the value, for readers; at most ``limit`` characters."""
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
