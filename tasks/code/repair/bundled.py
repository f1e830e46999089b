"""The bundled modules for repair tasks, and the index of faults that their scenarios are known to detect.

``modules/NAME/`` holds one to three source files, and ``scenarios.py``: functions without parameters whose values users
rely on. They become visible tests and hidden checks. ``scripts/build-repair-index`` runs every fault to find out which
values it changes, and stores the result in ``modules/index.json``.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ....errors import TaskError
from ...rng import Key, stable_hash
from .mutation import Mutation, mutate, mutations

FOLDER = Path(__file__).parent / "modules"
INDEX = FOLDER / "index.json"
SCENARIOS = "scenarios"


@dataclass(frozen=True, slots=True)
class Site:
    """One fault in one file of a module.

    Args:
        file: file name, without the folder.
        mutation: the fault.
    """

    file: str
    mutation: Mutation


@dataclass(frozen=True)
class Module:
    """One bundled module.

    Args:
        name: name of its folder and package.
        files: sources by file name, in order.
        scenarios: source of ``scenarios.py``.
        names: names of the scenarios, in order.
    """

    name: str
    files: Mapping[str, str]
    scenarios: str
    names: tuple[str, ...]

    def broken(self, sites: tuple[Site, ...]) -> dict[str, str]:
        """Return the sources with some faults injected."""
        by_file = {name: [site.mutation for site in sites if site.file == name] for name in self.files}
        return {name: mutate(text, by_file[name]) for name, text in self.files.items()}

    def values(self) -> dict[str, object]:
        """Return the value of each scenario on the original."""
        scenarios = import_module(f".modules.{self.name}.{SCENARIOS}", __package__)
        return {name: getattr(scenarios, name)() for name in self.names}


@dataclass(frozen=True, slots=True)
class Combination:
    """Faults whose combination the scenarios are known to detect.

    Args:
        sites: indices of the faults in ``sites(module)``.
        caught: indices of the scenarios whose values they change.
    """

    sites: tuple[int, ...]
    caught: frozenset[int]


@lru_cache(maxsize=1)
def module_names() -> tuple[str, ...]:
    """Return the names of all bundled modules."""
    return tuple(sorted(path.name for path in FOLDER.iterdir() if (path / f"{SCENARIOS}.py").is_file()))


@lru_cache(maxsize=64)
def module_named(name: str) -> Module:
    """Return one bundled module.

    Raises:
        TaskError: the name is unknown.
    """
    if name not in module_names():
        raise TaskError(f"there is no bundled module {name!r}; choose from {', '.join(module_names())}")
    paths = sorted(path for path in (FOLDER / name).glob("*.py") if path.stem != SCENARIOS)
    scenarios = (FOLDER / name / f"{SCENARIOS}.py").read_text(encoding="utf-8")
    files = {path.name: path.read_text(encoding="utf-8") for path in paths}
    names = filter(None, map(scenario_name, ast.parse(scenarios).body))
    return Module(name, files, scenarios, tuple(names))


def scenario_name(node: ast.stmt) -> str:
    """Return the name of the scenario that a statement defines, or an empty string.

    A scenario is a function without parameters that returns an object.
    """
    if not isinstance(node, ast.FunctionDef) or ast.unparse(node.args):
        return ""
    return node.name if isinstance(node.returns, ast.Name) and node.returns.id == "object" else ""


@lru_cache(maxsize=64)
def sites(name: str) -> tuple[Site, ...]:
    """Return every fault that fits into a module, file by file; the index in this order is the fault's number."""
    return tuple(Site(file, found) for file, text in module_named(name).files.items() for found in mutations(text))


def digest_of(name: str) -> str:
    """Return a digest of a module and of the faults that fit into it."""
    module = module_named(name)
    found = [(site.file, site.mutation) for site in sites(name)]
    numbered: list[Key] = [[file, fault.start, fault.end, fault.after] for file, fault in found]
    return stable_hash(module.scenarios, [list(pair) for pair in module.files.items()], numbered).hex()[:16]


@lru_cache(maxsize=64)
def combinations(name: str, faults: int) -> tuple[Combination, ...]:
    """Return the detected combinations of a number of faults.

    Raises:
        TaskError: the index was built from another version of the module.
    """
    entry = _index().get(name, {})
    if entry.get("digest") != digest_of(name):
        raise TaskError(f"the index of {name} does not match the module: run scripts/build-repair-index")
    return tuple(
        Combination(tuple(map(int, key.split())), _numbers(int(mask, 16)))
        for key, mask in entry["faults"][str(faults)].items()
    )


def mask_of(numbers: frozenset[int]) -> str:
    """Return scenario numbers in the format of the index: the bits of a hexadecimal number."""
    return format(sum(1 << number for number in numbers), "x")


def _numbers(mask: int) -> frozenset[int]:
    return frozenset(number for number in range(mask.bit_length()) if mask >> number & 1)


@lru_cache(maxsize=1)
def _index() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = json.loads(INDEX.read_text(encoding="utf-8"))
    return loaded
