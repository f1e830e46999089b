"""Values that all instances of an environment share: class attributes, default arguments, variables of its module."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

PLAIN = (list, dict, set, bytearray, int, float, str, tuple, type(None))
"""Kinds of values that are compared; others mostly have no telling ``repr``."""
OURS = __name__.partition(".")[0]


def shared_state(cls: type) -> dict[str, str]:
    """Return every value that instances of ``cls`` share, as text by its name."""
    found: dict[str, str] = {}
    for base in cls.__mro__[:-1]:
        if base.__module__.partition(".")[0] == "gymnasium" or base.__module__ == f"{OURS}.envs.base":
            continue
        found |= {f"{base.__name__}.{name}": repr(value) for name, value in _plain(vars(base))}
        for name, function in vars(base).items():
            found |= {f"a default argument of {base.__name__}.{name}": repr(one) for one in _defaults(function)}
        module = sys.modules.get(base.__module__)
        found |= {f"{base.__module__}.{name}": repr(value) for name, value in _plain(vars(module) if module else {})}
    return found


def _plain(names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(names.items()):
        if isinstance(value, PLAIN) and not name.startswith("__") and name != "_abc_impl":
            yield name, value


def _defaults(function: Any) -> list[Any]:
    plain = getattr(function, "__func__", function)
    given = [*(getattr(plain, "__defaults__", None) or ()), *(getattr(plain, "__kwdefaults__", None) or {}).values()]
    return [one for one in given if isinstance(one, (list, dict, set, bytearray))]
