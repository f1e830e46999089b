"""The shape of the package: imports run downwards, nothing is cyclic, what is shipped is what is there."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = {
    "errors": 0,
    "config_errors": 0,
    "lazy": 0,
    "renamed": 0,
    "stop_signals": 0,
    "logs": 1,
    "config": 1,
    "loop_thread": 1,
    "verdicts": 1,
    "config_help": 2,
    "tasks": 3,
    "sandboxes": 3,
    "envs": 4,
    "inference": 4,
    "agents": 5,
    "rollouts": 6,
    "service": 7,
    "evals": 8,
    "trainers": 8,
    "view": 9,
    "commands": 10,
    "cli": 11,
    "__main__": 12,
    "": 12,  # the front door, __init__.py: it re-exports the folders below, and none of them imports it
}
"""A module may import its own folder and whatever has a lower number. A new folder needs a place here first."""

TRAINERS = {
    "registry": -1,
    "learning": 0,
    "tracking": 0,
    "weights": 1,
    "planning": 1,
    "critics": 1,
    "collect": 1,
    "run": 2,
    "algorithms": 2,
    "options": 3,
    "pretraining": 3,
    "script": 4,
    "archer_settings": 5,
    "archer_gate": 6,
    "archer_pretraining": 6,
    "archer_doubly_robust": 6,
    "__init__": 10,  # the facade
}
"""Inside ``trainers`` the same holds; the algorithms' scripts, which are not listed, stand above all."""

BUILDS_ON = {("trainers.self_play", "trainers.loop")}
"""Scripts that are another's algorithm on other episodes."""

NOT_THE_PACKAGE = {
    "benchmarks",
    "build",
    "dist",
    "docs",
    "examples",
    "models",
    "requirements",
    "runs",
    "scripts",
    "shared",
    "src",
    "tests",
}
FACADES = {"agents", "envs", "evals", "inference", "rollouts", "sandboxes", "service", "tasks", "trainers"}
"""Folders with a public API in their ``__init__.py``."""
MODELS = {"torch", "transformers", "tokenizers", "safetensors"}
MAY_USE_MODELS = {"inference", "trainers"}
FILE_LINES, FUNCTION_LINES = 350, 60


@dataclass(frozen=True)
class Import:
    """One import of one of our modules by another."""

    importer: str
    imported: str
    line: int
    typing_only: bool


def items() -> list[str]:
    """Files and folders that the wheel is made of."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"])


@lru_cache(maxsize=1)
def modules() -> dict[str, Path]:
    """Every module of the package by dotted name below ``turnwise``; the front door is the empty name."""
    found: dict[str, Path] = {}
    for item in items():
        path = ROOT / item
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path] * (path.suffix == ".py"):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            found["" if name == "__init__" else name] = file
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and the statements in it; ``ast.walk`` visits expressions, too, and takes ten times as long."""
    yield node
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, block, ()):
            yield from statements(inner)


def typing_blocks(module: ast.Module) -> set[int]:
    """Ids of the nodes that stand under ``if TYPE_CHECKING:``."""
    return {
        id(inner)
        for node in statements(module)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in statements(statement)
    }


@lru_cache(maxsize=1)
def imports() -> tuple[Import, ...]:
    """Every relative import in the package, also under TYPE_CHECKING and inside functions."""
    found = []
    for name, path in modules().items():
        module = tree(path)
        typing_only = typing_blocks(module)
        package = name.split(".")[:-1]
        for node in statements(module):
            if isinstance(node, ast.ImportFrom) and node.level:
                climb = node.level - 1
                assert climb <= len(package), f"{path}:{node.lineno} climbs out of the package"
                base = [*package[: len(package) - climb], *(node.module.split(".") if node.module else [])]
                for target in targets(base, [alias.name for alias in node.names]):
                    found.append(Import(name, target, node.lineno, id(node) in typing_only))
    return tuple(found)


def targets(base: list[str], names: list[str]) -> set[str]:
    """The modules that ``from base import names`` reads: submodules where the names are such, else ``base``."""
    whole = ".".join(base)
    return {".".join([*base, name]) if ".".join([*base, name]) in modules() else whole for name in names}


def top(name: str) -> str:
    return name.split(".")[0]


def test_there_is_something_to_check() -> None:
    assert len(modules()) > 20
    assert Import("envs.base", "errors", 1, False).imported in {found.imported for found in imports()}


def test_every_module_has_a_layer() -> None:
    unplaced = {top(name) for name in modules()} - set(LAYERS)
    assert not unplaced, f"decide in LAYERS where these stand before writing them: {sorted(unplaced)}"


def test_imports_run_downwards() -> None:
    wrong = [
        f"{found.importer}:{found.line} imports {found.imported or 'the front door'}"
        for found in imports()
        if top(found.importer) != top(found.imported)
        and LAYERS.get(top(found.imported), 99) >= LAYERS[top(found.importer)]
    ]
    assert not wrong, "imports must run downwards, also for types:\n" + "\n".join(wrong)


def test_imports_run_downwards_inside_trainers() -> None:
    def height(name: str) -> int:
        parts = name.split(".")
        return TRAINERS[parts[1]] if len(parts) > 2 else TRAINERS.get(parts[1], 9)

    wrong = [
        f"{found.importer}:{found.line} imports {found.imported}"
        for found in imports()
        if top(found.importer) == top(found.imported) == "trainers"
        if found.importer.split(".")[1] != found.imported.split(".")[1]
        and height(found.imported) >= height(found.importer)
        and (found.importer, found.imported) not in BUILDS_ON
    ]
    assert not wrong, "scripts > algorithms | run > collect | critics | weights > learning:\n" + "\n".join(wrong)


def test_simulators_know_no_templates() -> None:
    families = {name.split(".")[1] for name in modules() if name.split(".")[2:3] == ["simulators"]}
    wrong = [
        f"{found.importer}:{found.line} imports {found.imported}"
        for found in imports()
        for family in families
        if found.importer.startswith(f"tasks.{family}.simulators.") and found.imported.startswith(f"tasks.{family}.")
        if not found.imported.startswith(f"tasks.{family}.simulators")
    ]
    assert families == {"apps", "web"}
    assert not wrong, "a simulator must work without the tasks in it:\n" + "\n".join(wrong)


def test_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for found in imports():
        if found.imported != found.importer:
            graph[found.importer].add(found.imported)
    cycle = first_cycle(graph)
    assert cycle is None, "import cycle: " + " -> ".join(cycle or ())


def first_cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """Some cycle of a directed graph, or ``None``."""
    finished: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str] | None:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in finished:
            return None
        for successor in sorted(graph.get(node, ())):
            if cycle := visit(successor, [*trail, node]):
                return cycle
        finished.add(node)
        return None

    return next((cycle for node in sorted(graph) if (cycle := visit(node, []))), None)


def test_the_cycle_finder_finds_cycles() -> None:
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": set()}) is None
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def absolute_imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in statements(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.lineno, node.module


def test_the_package_imports_itself_relatively() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules().values()
        for line, name in absolute_imports(tree(path))
        if top(name) == "turnwise" or top(name) in set(LAYERS) - {""}
    ]
    assert not wrong, "inside the package imports are relative:\n" + "\n".join(wrong)


def test_models_live_in_inference_and_trainers_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {library}"
        for name, path in modules().items()
        if top(name) not in MAY_USE_MODELS
        for line, library in absolute_imports(tree(path))
        if top(library) in MODELS
    ]
    assert not wrong, f"{sorted(MODELS)} are for {sorted(MAY_USE_MODELS)} only:\n" + "\n".join(wrong)


@pytest.mark.slow
def test_no_module_acts_when_it_is_imported() -> None:
    """A program for a sandbox may end every process that it can reach; to import it must do nothing."""
    acting = {
        f"{path.relative_to(ROOT)}: {ast.unparse(node.value)}"
        for path in modules().values()
        for node in tree(path).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    }
    assert acting == {
        "__init__.py: _load_plugins()",
        "__init__.py: _register_builtin()",
        "__init__.py: logging.getLogger(__name__).addHandler(logging.NullHandler())",
        "envs/base.py: add_old_limits(TurnEnv)",
    }


def test_everybody_else_imports_the_public_name() -> None:
    outside = [path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in outside
        for line, name in absolute_imports(tree(path))
        if top(name) in set(LAYERS) - {""}
    ]
    assert not wrong, "tests, examples and benchmarks import turnwise.…:\n" + "\n".join(wrong)


def test_links_wheel_list_and_folders_agree() -> None:
    links = {path.name for path in (ROOT / "src" / "turnwise").iterdir() if path.name != "__pycache__"}
    assert links == set(items()), "src/turnwise must hold one link for each item of the wheel"
    for name in links:
        link = ROOT / "src" / "turnwise" / name
        assert link.is_symlink(), f"{link} must be a link"
        assert link.readlink() == Path("../..") / name, f"{link} points to {link.readlink()}"
    present = {
        path.name
        for path in ROOT.iterdir()
        if not path.name.startswith((".", "_")) and path.is_dir() and path.name not in NOT_THE_PACKAGE
        if not path.name.endswith(".egg-info")
    } | {path.name for path in ROOT.glob("*.py")}
    assert present == {item for item in items() if item != "py.typed"}, "the wheel's list and the tree disagree"


def test_the_sdist_holds_what_the_wheel_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sdist = set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"])
    assert set(items()) <= sdist
    assert {"README.md", "LICENSE"} <= sdist


def test_the_type_checkers_see_every_folder() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    code = {item for item in items() if (ROOT / item).is_dir() and item != "configs"}
    assert code <= set(project["tool"]["pyright"]["include"])
    assert project["tool"]["mypy"]["files"] == ["src/turnwise", "tests"]
    assert project["tool"]["mypy"]["strict"] is True


def test_only_facades_are_in_an_init() -> None:
    folders = [ROOT / item for item in items() if (ROOT / item).is_dir()] + [ROOT / "tests"]
    found = {str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("__init__.py")}
    assert found == {f"{facade}/__init__.py" for facade in FACADES}, "a folder's __init__.py is its facade, or missing"


def test_facades_show_their_own_folder_and_no_module_imports_one() -> None:
    inner = [found for found in imports() if found.importer.endswith(".__init__") and found.imported != "lazy"]
    wrong = [found for found in inner if top(found.importer) != top(found.imported) or not found.typing_only]
    users = [f"{found.importer}:{found.line}" for found in imports() if found.imported in FACADES]
    assert not wrong, f"a facade imports names of its own folder, under TYPE_CHECKING: {wrong}"
    assert not users, f"inside the package, import a name from its module: {users}"


def functions(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every function's name and number of lines."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.name, node.end_lineno - node.lineno + 1


def test_files_and_functions_stay_readable() -> None:
    long = []
    for path in modules().values():
        place, lines = path.relative_to(ROOT), len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES:
            long.append(f"{place} has {lines} lines; split it (limit {FILE_LINES})")
        for name, count in functions(tree(path)):
            if count > FUNCTION_LINES:
                long.append(f"{place}: {name} has {count} lines (limit {FUNCTION_LINES})")
    assert not long, "\n".join(long)


def test_no_limit_of_time_drops_a_cancellation() -> None:
    """``wait_for`` of Python 3.11 drops one that comes as the awaited call ends: Ctrl-C, or an outer limit, is lost."""
    users = [name for name, path in modules().items() if "asyncio.wait_for(" in path.read_text(encoding="utf-8")]
    assert not users, f"use asyncio.timeout in place of asyncio.wait_for: {users}"


def test_modules_say_what_they_are_for() -> None:
    silent = [str(path.relative_to(ROOT)) for path in modules().values() if not ast.get_docstring(tree(path))]
    assert not silent, f"these modules need a docstring of one sentence: {silent}"
