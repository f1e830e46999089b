"""Plays episodes in a process of its own: work comes as JSON on standard input, traces go to standard output.

An address is ``{"id": …, "kwargs": …}`` for a registered id; for a class or function it is
``{"module": …, "file": …, "name": …, "kwargs": …}``: imported by its module's name where that works, and from its file
otherwise (a test, a script).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any

from ...tasks.spec import TaskSpec
from ..base import TurnEnv
from ..registry import Entry, find, make
from ..remote.address import token_variable
from .harness import Harness, Subject


def address_of(target: Callable[..., TurnEnv], kwargs: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """How another process finds a class or function, or ``None`` and why it cannot."""
    name = getattr(target, "__qualname__", "")
    module = sys.modules.get(getattr(target, "__module__", ""))
    if not name or "<" in name or module is None:
        return None, f"{name or target!r} is defined inside a function, where another process cannot find it"
    if module.__name__ == "__main__" and getattr(module, "__file__", None) is None:
        return None, f"{name} is defined in a notebook or a console, where another process cannot find it"
    try:
        json.dumps(kwargs)
    except (TypeError, ValueError) as error:
        return None, f"its constructor arguments are not JSON ({error})"
    return {"module": module.__name__, "file": getattr(module, "__file__", None), "name": name, "kwargs": kwargs}, ""


def subject_of(target: str | Callable[..., TurnEnv], kwargs: Mapping[str, Any] | None = None) -> Subject:
    """Return the subject for an id, a class, or a function that makes an environment.

    Args:
        target: an id, a class or a function.
        kwargs: the arguments with which each environment is made, over those of the id.
    """
    given = dict(kwargs or {})
    if isinstance(target, str):
        entry: Entry = find(target)
        address: dict[str, Any] | None = {"id": target, "kwargs": given}
        why = ""
        if entry.source == "session":
            point = entry.entry_point
            if isinstance(point, str):
                module, _, name = point.partition(":")
                address = {"module": module, "file": None, "name": name, "kwargs": {**entry.kwargs, **given}}
            else:
                address, why = address_of(point, {**entry.kwargs, **given})
        return Subject(target, lambda: make(target, **given), address, why, token_variable(target))
    address, why = address_of(target, given)
    return Subject(getattr(target, "__qualname__", repr(target)), partial(target, **given), address, why)


def found(address: dict[str, Any]) -> Callable[[], TurnEnv]:
    """Return a function that makes the environment at an address."""
    if "id" in address:
        return lambda: make(address["id"], **address["kwargs"])
    target: Any = reduce(getattr, address["name"].split("."), _module(address["module"], address["file"]))
    return lambda: target(**address["kwargs"])


def _module(name: str, file: str | None) -> Any:
    parts = name.split(".")
    if file is not None and list(Path(file).with_suffix("").parts[-len(parts) :]) == parts:
        sys.path.append(str(Path(file).parents[len(parts) - 1]))  # so that its relative imports work, too
    if name != "__main__":
        try:
            return importlib.import_module(name)
        except ImportError:
            if file is None:
                raise
    name = "certified_main" if name == "__main__" else name
    spec = importlib.util.spec_from_file_location(name, file) if file else None
    if spec is None or spec.loader is None:
        raise ImportError(f"module {name!r} has no file that another process could load")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Play what standard input asks for."""
    work = json.load(sys.stdin)
    harness = Harness(Subject("elsewhere", found(work["address"])))
    traces = [
        harness.play(who, TaskSpec.from_json(spec), turns=work["turns"]).to_json() for spec, who in work["episodes"]
    ]
    print(json.dumps(traces))


if __name__ == "__main__":
    main()
