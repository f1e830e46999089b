"""Every family of environments keeps its oracle and its near misses in files of the same names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .test_structure import imports, modules, tree

FAMILIES = ("apps", "bfcl", "code", "miniwob", "search", "web")
"""Folders of ``envs`` with one family of environments. A game is one file, which holds its oracle and near misses."""
FOR_CERTIFICATION = {"oracle": "next_action", "near_misses": "near_misses"}
"""Files of each family, with the function that each defines."""
WITHOUT_ORACLE = {"miniwob": "its pages judge themselves and do not say how they are solved"}


def methods(name: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield every method of a name that the environments of families define, with its module."""
    for module, path in modules().items():
        parts = module.split(".")
        if parts[0] == "envs" and len(parts) > 2 and parts[1] in FAMILIES:
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.ClassDef):
                    found = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name]
                    yield from ((module, one) for one in found)


@pytest.mark.parametrize("file", FOR_CERTIFICATION)
def test_every_family_has_its_oracle_and_near_misses_in_files_of_these_names(file: str) -> None:
    for family in FAMILIES:
        module = modules().get(f"envs.{family}.{file}")
        if file == "oracle" and family in WITHOUT_ORACLE:
            assert module is None, f"envs/{family} has an oracle now: take it out of WITHOUT_ORACLE"
            continue
        assert module is not None, f"write envs/{family}/{file}.py: readers look for it there"
        defined = {node.name for node in tree(module).body if isinstance(node, ast.FunctionDef)}
        assigned = {node.target.id for node in tree(module).body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
        wanted = FOR_CERTIFICATION[file]
        assert wanted in defined or wanted.upper() in assigned, f"envs/{family}/{file}.py defines no {wanted}()"
        used = {found.importer for found in imports() if found.imported == f"envs.{family}.{file}"}
        assert f"envs.{family}.env" in used, f"envs/{family}/env.py does not use {file}.py"
    named = {module.split(".")[1] for module, _ in methods(file)}
    assert named == set(FAMILIES) - (set(WITHOUT_ORACLE) if file == "oracle" else set())


@pytest.mark.parametrize("file", FOR_CERTIFICATION)
def test_the_environment_of_a_family_only_calls_them(file: str) -> None:
    own = [(module, method) for module, method in methods(file) if module.endswith(".env")]
    long = [f"{module}:{method.lineno}" for module, method in own if len(method.body) > 5]
    assert not long, f"move what {file}() computes to {file}.py: {long}"
