"""The version of an environment's source: a digest of the files that define it and its wrappers."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import gymnasium

VERSIONED = frozenset({"turnwise", "gymnasium"}) | sys.stdlib_module_names
"""Packages whose behavior the id of an environment fixes: a change there means a new version of the id."""

PLAIN = (str, int, float, type(None), tuple, list, dict, set, frozenset, PurePath)


def source_digest(env: gymnasium.Env[Any, Any]) -> str | None:
    """Digest the source of an environment and of its wrappers, as sixteen hex digits.

    The digest covers the file of every class that they derive from, or all Python files of that class's package. It
    leaves out Turnwise, Gymnasium and the standard library. It also covers the file of the function that makes the
    environment, and the list of wrappers. A wrapper counts with its constructor arguments if it records them
    (Gymnasium's ``RecordConstructorArgs``), and otherwise with its public attributes that are plain values.

    Args:
        env: the environment, wrapped or not.

    Returns:
        ``None`` for a built-in environment without wrappers, and for a class that is in no file, such as one of a
        notebook.
    """
    layers = list(_layers(env))
    if remote := getattr(layers[-1], "remote_digest", None):  # its source is on a server, which digests it
        return str(remote)
    modules = [kind.__module__ for layer in layers for kind in type(layer).__mro__]
    if layers[-1].spec is not None:
        made_by = layers[-1].spec.entry_point
        made_by = made_by.func if isinstance(made_by, partial) else made_by
        modules.append(made_by if isinstance(made_by, str) else getattr(made_by, "__module__", ""))
    return _digest([*_lines(modules), *(_described(wrapper) for wrapper in layers[:-1])])


def module_digest(module: str) -> str | None:
    """Digest the source of an imported module, or of all its package; ``None`` as for ``source_digest``."""
    return _digest(_lines([module]))


def _lines(modules: Sequence[str]) -> list[str]:
    """Return a line on each file of the packages of these modules."""
    packages = dict.fromkeys(module.partition(":")[0].partition(".")[0] for module in modules)
    files = [entry for package in packages if package not in VERSIONED for entry in _files(package)]
    return [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for name, path in files]


def _digest(lines: Sequence[str]) -> str | None:
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16] if lines else None


def _layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    """Yield the wrappers, the outermost first, and the environment inside."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def _described(wrapper: gymnasium.Env[Any, Any]) -> str:
    kind, arguments = type(wrapper), getattr(wrapper, "_saved_kwargs", None)
    if arguments is None:  # what it keeps instead, as far as a digest of it means something
        kept = {name: value for name, value in vars(wrapper).items() if not name.startswith("_") and name != "env"}
        arguments = {name: value for name, value in kept.items() if isinstance(value, PLAIN)}
    try:
        plain = json.dumps(arguments, skipkeys=True, sort_keys=True, default=_plain)
    except (ValueError, TypeError, RecursionError):  # circular, or keys of several types
        plain = ", ".join(sorted(map(str, arguments)))
    return f"{kind.__module__}.{kind.__qualname__} {plain}\n"


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value) if isinstance(value, PurePath) else type(value).__qualname__


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """Return the Python files of an imported module or package, under names that do not depend on its location."""
    module = sys.modules.get(package)
    for root in map(Path, getattr(module, "__path__", ())):
        yield from ((path.relative_to(root).as_posix(), path) for path in sorted(root.rglob("*.py")))
    if not hasattr(module, "__path__") and (file := getattr(module, "__file__", None)) and Path(file).is_file():
        yield package, Path(file)
