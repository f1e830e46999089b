"""Facades whose names are imported on first use, so that a light import stays light."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.metadata
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a facade (PEP 562).

    A facade is an ``__init__.py`` that imports its names under ``if TYPE_CHECKING:`` and lists them in ``__all__``. A
    type checker follows those imports. At run time this function reads them from the source and executes one when its
    name is first used. The imports are therefore written down once.

    Args:
        package: The facade's ``__name__``.
    """

    def getattribute(name: str) -> Any:
        if name.startswith("__") or name not in (known := _imports(package)):
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_nearest(package, name)}")
        module, attribute = known[name]
        try:
            found = getattr(importlib.import_module(module, package), attribute)
        except ModuleNotFoundError as error:
            extra = _extra(error.name or "")
            if extra is None:
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} needs {error.name!r}: pip install 'turnwise[{extra}]'", name=error.name
            ) from error
        setattr(sys.modules[package], name, found)  # from now on Python finds it without this function
        return found

    return getattribute, lambda: sorted({*vars(sys.modules[package]), *_imports(package)})


@cache
def _imports(package: str) -> dict[str, tuple[str, str]]:
    """Return the module and attribute of each name that a facade imports for type checkers."""
    spec = sys.modules[package].__spec__
    source = getattr(spec and spec.loader, "get_source", lambda name: None)(package)
    if source is None:
        raise ImportError(f"the source of {package} is missing, and its names are read from it; reinstall turnwise")
    blocks = (node.body for node in ast.parse(source).body if isinstance(node, ast.If))
    lines = (node for block in blocks for node in block if isinstance(node, ast.ImportFrom))
    return {
        alias.asname or alias.name: (f"{'.' * line.level}{line.module}", alias.name)
        for line in lines
        for alias in line.names
    }


def _nearest(package: str, name: str) -> str:
    near = () if name.startswith("__") else difflib.get_close_matches(name, _imports(package), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _extra(module: str) -> str | None:
    """Return the optional extra of this distribution that installs a module, or None."""
    top = re.escape(module.partition(".")[0])
    needed = importlib.metadata.requires("turnwise") or []
    found = (re.search(r"extra == [\"']([\w-]+)", each) for each in needed if re.match(rf"{top}\b(?!-)", each))
    return next((match[1] for match in found if match), None)
