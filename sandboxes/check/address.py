"""How another process finds a backend: by its name, or by the module, file and class of a third party's."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from ...verdicts import NotApplicable
from ..backend import Backend
from ..named import backend_named, backend_names


def address_of(backend: Backend) -> dict[str, str]:
    """Return the address at which another process finds the class of a backend.

    Raises:
        NotApplicable: it is defined inside a function, or cannot be made without arguments.
    """
    kind = type(backend)
    module = sys.modules.get(kind.__module__)
    if backend.name in backend_names() and type(backend_named(backend.name)) is kind:
        return {"name": backend.name}
    if module is None or "<" in kind.__qualname__ or not getattr(module, "__file__", None):
        raise NotApplicable(f"{kind.__qualname__} is defined in a place that another process cannot import")
    return {"module": module.__name__, "file": str(module.__file__), "class": kind.__qualname__}


def backend_at(address: dict[str, str]) -> Backend:
    """Create a backend of the class at an address."""
    if "name" in address:
        return backend_named(address["name"])
    made = reduce(getattr, address["class"].split("."), _module(address["module"], address["file"]))()
    if not isinstance(made, Backend):
        raise TypeError(f"{address['class']} returns a {type(made).__name__}, not a Backend")
    return made


def _module(name: str, file: str) -> Any:
    parts = name.split(".")
    if list(Path(file).with_suffix("").parts[-len(parts) :]) == parts:
        sys.path.append(str(Path(file).parents[len(parts) - 1]))  # so that its relative imports work, too
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
