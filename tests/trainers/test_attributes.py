"""No attribute of a run, or of any object of the trainers, appears after its constructor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import pytest

import turnwise.trainers as front_door
from turnwise.trainers.run.run import Run

PACKAGE = Path(front_door.__file__).resolve().parent
CONSTRUCTORS = ("__init__", "__post_init__")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def assigned(function: Function) -> Iterator[tuple[str, int]]:
    """Yield every attribute of ``self`` that a method assigns, with its line."""
    attributes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    for node in attributes:
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr, node.lineno


def methods(cls: ast.ClassDef) -> Iterator[Function]:
    yield from (each for each in cls.body if isinstance(each, Function))


def declared(cls: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """Return the attributes that a class or a base of it declares in its body or its constructor."""
    names = set[str]()
    for each in cls.body:
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    for method in methods(cls):
        if method.name in CONSTRUCTORS:
            names |= {name for name, _ in assigned(method)}
        if any(isinstance(one, ast.Attribute) and one.attr == "setter" for one in method.decorator_list):
            names.add(method.name)
    for base in cls.bases:
        of = base.value if isinstance(base, ast.Subscript) else base
        name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
        if name in classes:
            names |= declared(classes[name], classes)
    return names


def late(sources: Mapping[str, str]) -> list[str]:
    """Return the attributes that methods of the classes in some sources add."""
    nodes = [(place, node) for place, text in sources.items() for node in ast.walk(ast.parse(text))]
    found = [(place, node) for place, node in nodes if isinstance(node, ast.ClassDef)]
    classes = {cls.name: cls for _, cls in found}
    return [
        f"{place}:{line}: {cls.name}.{method.name} adds the attribute {name}; set it in the constructor"
        for place, cls in found
        for method in methods(cls)
        if method.name not in CONSTRUCTORS
        for name, line in assigned(method)
        if name not in declared(cls, classes)
    ]


@pytest.mark.slow
def test_no_attribute_appears_after_the_constructor() -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(sources) > 100, "there is something to check"
    found = late(sources)
    assert not found, "\n".join(found)


def test_a_late_attribute_is_found() -> None:
    base = "class Base:\n    kept: int\n    def __init__(self):\n        self.first = 0\n"
    text = base + "class Derived(Base):\n    def go(self):\n        self.first, self.kept, self.late = 1, 2, 3\n"
    (found,) = late({"a.py": text})
    assert found.startswith("a.py:7: Derived.go adds the attribute late")


def test_a_run_takes_every_field_at_once_and_no_other() -> None:
    assert Run.__dataclass_params__.frozen, "nothing of an open run is replaced"  # type: ignore[attr-defined]
    assert set(Run.__slots__) == {field.name for field in fields(Run)}, "and nothing is added"
