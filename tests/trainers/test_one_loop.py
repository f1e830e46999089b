"""The shape of training: a run is whole when it is opened, nothing is added later, and its steps stand in one place."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.trainers.run.run import Run

TRAINERS = Path(__file__).resolve().parents[2] / "trainers"
TREES = {str(p.relative_to(TRAINERS)): ast.parse(p.read_text(encoding="utf-8")) for p in TRAINERS.rglob("*.py")}
ABOUT_RUNS = [name for name in TREES if name.startswith(("run/", "collect/")) or "/" not in name]
CONSTRUCTORS = {"__init__", "__post_init__"}
STEP = ["send", "collect", "learn", "finish_step", "report", "save_if_due", "evaluate"]
"""The calls of the loop, in this order."""


def assigned(node: ast.AST) -> Iterator[ast.Attribute]:
    """Every attribute that is set or deleted somewhere in a node."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store | ast.Del):
            yield inner


def declared(kind: ast.ClassDef) -> set[str]:
    """The attributes of a class that its body declares or its constructor sets."""
    fields = {
        each.target.id for each in kind.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    constructors = (each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name in CONSTRUCTORS)
    return fields | {each.attr for constructor in constructors for each in assigned(constructor)}


def test_the_finder_finds_what_is_set() -> None:
    found = assigned(ast.parse("run.a = run.b.c\nrun.step += 1\ndel run.x\n(self.y, z) = 1, 2"))
    assert {ast.unparse(each) for each in found} == {"run.a", "run.step", "run.x", "self.y"}


def test_no_attribute_of_a_run_is_set_outside_its_constructor() -> None:
    assert dataclasses.fields(Run)
    assert Run.__dataclass_params__.frozen, "a run is frozen"  # type: ignore[attr-defined]
    assert "__dict__" not in dir(Run), "and has no place for anything else"
    wrong = [
        f"{name}:{each.lineno} sets {ast.unparse(each)}"
        for name, module in TREES.items()
        for each in assigned(module)
        if ast.unparse(each.value).split(".")[-1] == "run"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ABOUT_RUNS)
def test_no_attribute_appears_after_the_constructor(name: str) -> None:
    late = [
        f"{name}:{each.lineno} {kind.name}.{each.attr}"
        for kind in ast.walk(TREES[name])
        if isinstance(kind, ast.ClassDef)
        for each in assigned(kind)
        if ast.unparse(each.value) == "self" and each.attr not in declared(kind)
    ]
    assert not late, "these attributes appear only when a method is called:\n" + "\n".join(late)
    names = {ast.unparse(each.func) for each in ast.walk(TREES[name]) if isinstance(each, ast.Call)}
    assert not names & {"setattr", "object.__setattr__"}, f"{name} sets attributes behind the reader's back"


def methods_called(node: ast.AST) -> list[str]:
    """The names of the methods that are called in a node, in the order of the text."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    return [call.func.attr for call in calls if isinstance(call.func, ast.Attribute)]


def test_the_step_loop_stands_once() -> None:
    loops = {
        name: methods_called(node)
        for name, module in TREES.items()
        for node in ast.walk(module)
        if isinstance(node, ast.While | ast.For | ast.AsyncFor)
        and {"finish_step", "evaluate"} & set(methods_called(node))
    }
    del loops["pretrain.py"]  # pre-training plays no episodes, so there is nothing to sync or collect
    assert list(loops) == ["run/training.py"]
    assert [call for call in loops["run/training.py"] if call in STEP] == STEP
