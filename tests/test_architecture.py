"""The layers in docs/architecture.md and CONTRIBUTING.md, and the limits there, are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_structure import FILE_LINES, FUNCTION_LINES, LAYERS, imports, top

ROOT = Path(__file__).resolve().parent.parent
EVERYWHERE = {name for name, height in LAYERS.items() if height < LAYERS["tasks"]}
"""Modules that every folder may import; the diagram leaves them out."""
FRONT = {"", "__main__"}


def layers() -> dict[str, set[str]]:
    """Map each folder to the folders that it imports."""
    found: dict[str, set[str]] = {name: set() for name in set(LAYERS) - EVERYWHERE - FRONT}
    for each in imports():
        importer, imported = top(each.importer), top(each.imported)
        if importer in found and imported in found and importer != imported:
            found[importer].add(imported)
    return found


def below(name: str, graph: dict[str, set[str]]) -> set[str]:
    """Everything that can be reached from a folder."""
    return graph[name].union(*(below(each, graph) for each in graph[name]))


def necessary(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The arrows that do not follow from others (the transitive reduction)."""
    return {
        (name, other)
        for name, others in graph.items()
        for other in others
        if not any(other in below(between, graph) for between in others - {other})
    }


def test_the_reduction_leaves_out_what_follows() -> None:
    assert necessary({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {("a", "b"), ("b", "c")}


@pytest.mark.slow
def test_the_diagram_has_the_arrows_of_the_code() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = page.partition("```mermaid\n")[2].partition("```")[0]
    drawn = set(re.findall(r"^ +(\w+) --> (\w+)$", diagram, re.MULTILINE))
    wanted = necessary(layers())
    assert drawn == wanted, f"draw {sorted(wanted - drawn)}, remove {sorted(drawn - wanted)}"


@pytest.mark.slow
def test_the_page_describes_every_folder() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`(\w+)(?:/|\.py)`", " ".join(re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE))))
    assert set(layers()) <= described
    assert all(f"`{name}.py`" in page for name in EVERYWHERE), f"name the modules below all folders: {EVERYWHERE}"


def test_contributing_has_the_layers_of_the_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(r"`(cli > [^`]+)`", text)
    assert found is not None, "CONTRIBUTING.md lists the layers, the highest first"
    shown = [set(level.split(" | ")) for level in found[1].split(" > ")]
    inside = {name: height for name, height in LAYERS.items() if name not in EVERYWHERE | FRONT}
    wanted = [
        {name for name in inside if inside[name] == height} for height in sorted(set(inside.values()), reverse=True)
    ]
    assert shown == wanted


def test_contributing_has_the_limits_of_the_tests() -> None:
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    assert f"A test fails above {FILE_LINES} and {FUNCTION_LINES}." in text
