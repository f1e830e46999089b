"""The public API: what the facades list exists, is documented and typed, and nothing that users read imports deeper."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import pytest

import turnwise
from turnwise.envs.scaffold import scaffold
from turnwise.evals.evaluate import EvalSettings
from turnwise.evals.settings import EvalConfig
from turnwise.lazy import attach

from .test_structure import FACADES, ROOT, tree

PACKAGES = ["turnwise", *(f"turnwise.{facade}" for facade in sorted(FACADES))]
NAMES = [(package, name) for package in PACKAGES for name in importlib.import_module(package).__all__]
HEAVY = {
    "aiohttp", "anyio", "asyncio", "docker", "fastapi", "httpx", "matplotlib", "mcp", "openai", "pandas", "playwright",
    "pyarrow", "pydantic", "ray", "rich", "scipy", "tensorboard", "torch", "transformers", "typer", "vllm",
    "websockets",
}  # fmt: skip
"""Packages that no facade may import before one of its names is used."""
PUBLIC = re.compile(rf"turnwise(\.({'|'.join(sorted(FACADES))}|errors))?")
"""Modules that users may import from."""
SHOWN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def facade(package: str) -> Path:
    return ROOT.joinpath(*package.split(".")[1:], "__init__.py")


def typed_names(package: str) -> list[str]:
    """Names that a facade imports under TYPE_CHECKING."""
    blocks = (node.body for node in tree(facade(package)).body if isinstance(node, ast.If))
    lines = (line for block in blocks for line in block if isinstance(line, ast.ImportFrom))
    return [alias.asname or alias.name for line in lines for alias in line.names]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_facade_lists_what_it_imports_for_type_checkers(package: str) -> None:
    listed = list(importlib.import_module(package).__all__)
    assert sorted(listed) == sorted(typed_names(package)), f"{package}.__all__ and its TYPE_CHECKING block differ"
    assert len(set(listed)) == len(listed)
    assert set(listed) <= set(dir(importlib.import_module(package))), "an editor completes every public name"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_also_a_module(package: str) -> None:
    """Importing a submodule would replace the name by the module."""
    beside = {path.stem for path in facade(package).parent.glob("*.py")} | {
        path.name for path in facade(package).parent.iterdir() if path.is_dir()
    }
    clash = beside & set(importlib.import_module(package).__all__)
    assert not clash, f"rename the module or export another name: {package} has {sorted(clash)} twice"


@pytest.mark.parametrize(("package", "name"), NAMES, ids=lambda part: str(part))
def test_every_public_name_is_documented(package: str, name: str) -> None:
    value = getattr(importlib.import_module(package), name)
    assert not isinstance(value, types.ModuleType), f"{package}.{name} is a module"
    if inspect.isclass(value) or inspect.isfunction(value):
        own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        assert own, f"{package}.{name} needs a docstring of its own"
        assert not own.startswith(f"{name}("), f"{package}.{name} has only the docstring that a dataclass makes up"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_facade_says_what_is_internal(package: str) -> None:
    text = " ".join((ast.get_docstring(tree(facade(package))) or "").split())
    rule = "``__all__``" if package == "turnwise" else "Everything else in this folder is internal and may change."
    assert rule in text


@pytest.mark.parametrize(
    ("package", "wrong", "right"),
    [("turnwise", "evalute", "evaluate"), ("turnwise.agents", "OracelAgent", "OracleAgent")],
)
def test_a_misspelled_name_suggests_the_nearest(package: str, wrong: str, right: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"^module '{package}' has no attribute '{wrong}'; did you mean '{right}'\?$"
    ):
        getattr(importlib.import_module(package), wrong)
    double = "__nothing__"
    with pytest.raises(AttributeError, match=rf"^module '{package}' has no attribute '{double}'$"):
        getattr(importlib.import_module(package), double)
    with pytest.raises(ImportError, match=wrong):
        exec(f"from {package} import {wrong}", {})


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_facade_is_light(package: str) -> None:
    code = f"import sys, {package}; dir({package}); print(*{HEAVY!r} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not found, f"import {package} also imports {found}"


def test_importing_turnwise_adds_only_the_standard_library_to_gymnasium() -> None:
    """No clock: the number of modules is what makes an import slow (``benchmarks/import_time.py`` has the times)."""
    code = "import sys, gymnasium; before = set(sys.modules); import turnwise; print(*sys.modules.keys() - before)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    others = {name.partition(".")[0] for name in found} - sys.stdlib_module_names
    others = {name for name in others if not name.startswith("_sysconfigdata")}
    assert others == {"turnwise"}, f"import turnwise also imports {sorted(others - {'turnwise'})}"
    own = sorted(name for name in found if name.partition(".")[0] == "turnwise")
    assert len(own) < 25, f"import turnwise needs its registry and no environment, but imports {own}"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_star_import_brings_exactly_the_public_names(package: str) -> None:
    names: dict[str, Any] = {}
    exec(f"from {package} import *", names)
    assert set(names) - {"__builtins__"} == set(importlib.import_module(package).__all__)


def test_a_name_is_the_object_of_its_home_module() -> None:
    """Pickles and ``isinstance`` therefore agree, whichever way a name was imported."""
    for package, name in NAMES:
        value = getattr(importlib.import_module(package), name)
        if inspect.isclass(value) and get_origin(value) is None:
            home = importlib.import_module(value.__module__)
            assert getattr(home, value.__qualname__) is value, f"{package}.{name} is not what its module has"
            assert pickle.loads(pickle.dumps(value)) is value


def test_a_facade_without_source_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = types.ModuleType("bare_facade")
    monkeypatch.setitem(sys.modules, "bare_facade", bare)
    missing, _ = attach("bare_facade")
    with pytest.raises(ImportError, match="reinstall turnwise"):
        missing("Anything")


def deep(source: str) -> Iterator[str]:
    """Modules of Turnwise that a program imports and that are not public, also in its strings of Python."""
    for node in ast.walk(ast.parse(source)):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (module for module in modules if module.split(".")[0] == "turnwise" and not PUBLIC.fullmatch(module))


def test_the_finder_finds_deep_imports() -> None:
    text = "import turnwise.envs.base\nfrom turnwise.agents import Agent\nimport turnwise.errors, turnwise.cli"
    assert list(deep(text)) == ["turnwise.envs.base", "turnwise.cli"]


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.name)
def test_pages_name_nothing_deep(page: Path) -> None:
    if page.name in ("CHANGELOG.md", "CONTRIBUTING.md") or page.parent.name == "log":
        return  # these are about the inside
    text = page.read_text(encoding="utf-8")
    programs = re.findall(r"^```(?:python)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\s*((?:from|import) turnwise(?:[^(\n]*\([^)]*\)|.*$))", "\n".join(programs), re.MULTILINE)
    wrong = [line for line in lines if any(deep(line))]
    named = re.findall(r"`turnwise((?:\.\w+)+)", text)
    wrong += [name for name in named if not is_public(f"turnwise{name}")]
    assert not wrong, f"{page.name} names what is not public: {wrong}; add it to a facade, or use one that is there"


def is_public(dotted: str) -> bool:
    """Whether a dotted name on a page is a facade, one of its names, or what such a name has."""
    package = max((each for each in [*PACKAGES, "turnwise.errors"] if f"{dotted}.".startswith(f"{each}.")), key=len)
    rest = dotted.removeprefix(package).lstrip(".").split(".")[0]
    return not rest or hasattr(importlib.import_module(package), rest)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_import_nothing_deep(path: Path) -> None:
    assert not list(deep(path.read_text(encoding="utf-8")))


def test_a_new_environment_imports_nothing_deep(tmp_path: Path) -> None:
    scaffold("my_env", "tool", tmp_path)
    written = list(tmp_path.rglob("*.py"))
    assert written
    assert not [module for path in written for module in deep(path.read_text(encoding="utf-8"))]


def test_evaluate_takes_every_setting() -> None:
    assert set(EvalSettings.__annotations__) == set(EvalConfig.model_fields) - {"env", "policy"}


@pytest.mark.slow
def test_users_of_the_facades_see_the_true_types(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        textwrap.dedent("""
        import turnwise as tw
        from turnwise.agents import Agent, OracleAgent
        from turnwise.evals import EvalConfig, Summary

        agent: Agent = OracleAgent()
        summary: Summary = tw.evaluate("turnwise/Maze-v0", agent, out="runs/x", n=3, splits="test_iid")
        episodes: list[tw.Episode] = tw.load_episodes("runs/x/episodes")
        reveal_type(summary.success.value)
        tw.evaluate("turnwise/Maze-v0", agent, out="runs/x", n="three")
        EvalConfig(env=3)
        tw.evalute
        result = tw.train("loop", "turnwise/Maze-v0", steps=3)
        reveal_type(result.steps)
        """),
        encoding="utf-8",
    )
    cache = tmp_path / "cache"
    if (ROOT / ".mypy_cache").is_dir():  # a copy: a check of types beside this one writes to it
        shutil.copytree(ROOT / ".mypy_cache", cache)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(user)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith(str(user))]
    wanted = [
        'note: Revealed type is "',
        'error: Argument "n" to "evaluate" has incompatible type "str"; expected "int"',
        'error: Argument "env" to "EvalConfig" has incompatible type "int"; expected "str"',
        'error: Module has no attribute "evalute"',
        'note: Revealed type is "',
    ]
    assert len(found) == len(wanted), done.stdout
    assert all(said.startswith(law) for said, law in zip(found, wanted, strict=True)), done.stdout
    assert re.findall(r'Revealed type is "(?:builtins\.)?(\w+)"', done.stdout) == ["float", "int"], done.stdout


def test_version_is_the_distributions() -> None:
    assert turnwise.__version__ == importlib.metadata.version("turnwise")
