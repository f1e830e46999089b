"""The documentation is true: links resolve, its Python runs, the commands and files it names exist."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from turnwise.cli import COMMANDS, build_app

from .docs.walk import NOTEBOOK
from .docs.walk import pages as followed

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path
    for pattern in ("*.md", ".github/**/*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/*.md", "configs/**/*.md")
    for path in ROOT.glob(pattern)
)
NEEDS = {"docs/mcp.md": "mcp"}
"""Pages whose Python needs an optional extra, by the module that it brings."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^<!-- file: (?:\S+/)?(\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    """Language, text and first line of every fenced block."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield found[1], found[2], text[: found.start(2)].count("\n")


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that headings make."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@cache
def options(command: str) -> set[str]:
    """The options that a command takes."""
    group = typer.main.get_command(build_app())
    params = group.commands[command].params  # type: ignore[attr-defined]
    return {text for param in params for text in (*param.opts, *param.secondary_opts)} | {
        "--help",
        "--debug",
        "--log-format",
        "--log-level",
    }


def test_there_are_pages() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/semantics.md"} <= set(map(name, PAGES))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    for groups in LINK.findall(prose(page)):
        link = next(filter(None, groups))
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{name(page)} links to {link}, but there is no such heading"


ELSEWHERE = {NOTEBOOK, *followed()}
PROGRAMS = [page for page in PAGES if page not in ELSEWHERE and any(each[0] == "python" for each in blocks(page))]
"""Pages whose Python runs by itself. What needs the page's commands before it is run in tests/docs."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PROGRAMS, ids=name)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in order, in one namespace, in a directory with the files that the page shows."""
    extra = NEEDS.get(name(page))
    if extra is not None and importlib.util.find_spec(extra) is None:
        pytest.skip(f"NOT TESTED: {name(page)} needs pip install 'turnwise[{extra}]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    files = dict(FILE.findall(page.read_text(encoding="utf-8")))
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, file.removesuffix(".py"), raising=False)
    module = types.ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for language, text, line in blocks(page):
        if language == "python" and text not in files.values():
            exec(compile("\n" * line + text, str(page), "exec"), vars(module))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = "\n".join(text for language, text, _ in blocks(page) if language in ("", "sh", "console"))
    shown = shown.replace("\\\n", " ")
    inline = "\n".join(re.findall(r"`([^`\n]+)`", prose(page)))
    for line in (shown + "\n" + inline).splitlines():
        words = re.sub(r"^\$ ", "", line.strip()).split("#")[0].split()
        if words[:1] == ["turnwise"] and len(words) > 1 and not words[1].startswith("-"):
            for command in words[1].split("|"):
                assert command in COMMANDS, f"{name(page)} shows `turnwise {command}`, which does not exist"
                unknown = {word.split("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)} - options(command)
                assert not unknown, f"{name(page)}: turnwise {command} has no option {sorted(unknown)}"
        if words[:1] == ["make"]:
            wanted = [word for word in words[1:] if "=" not in word]
            assert set(wanted) <= targets, f"{name(page)} shows `{line.strip()}`, which the Makefile does not know"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|toml|md|yaml|json))`", prose(page))
    gone = [path for path in named if not path.startswith("runs/") and not (ROOT / path).exists()]
    assert not gone, f"{name(page)} names files that are not there: {gone}"
