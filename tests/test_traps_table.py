"""docs/traps.md names a test for every trap, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_structure import items

ROOT = Path(__file__).resolve().parent.parent
NEEDED = set(range(1, 29))


def rows() -> dict[int, list[tuple[str, str]]]:
    table = re.findall(r"^\| (\d+) \|.*$", text := (ROOT / "docs/traps.md").read_text(), re.MULTILINE)
    lines = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    return {int(n): re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line) for n, line in zip(table, lines, strict=True)}


def test_every_trap_that_can_be_tested_here_has_a_test() -> None:
    found = rows()
    assert set(found) >= NEEDED, f"traps without a row: {sorted(NEEDED - set(found))}"
    assert all(found.values()), f"traps without a test: {[n for n, tests in found.items() if not tests]}"


def test_the_tests_that_the_page_names_exist() -> None:
    missing = [
        f"{path}::{name}"
        for tests in rows().values()
        for path, name in tests
        if not re.search(rf"^\s*(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]
    assert not missing, f"docs/traps.md names tests that do not exist: {missing}"


REFERENCE = re.compile(r"(?:(\w+\.md),\s+)?\btraps?\s+(\d+)((?:,\s+\d+)*(?:\s+and\s+\d+)?)")
"""``traps.md, trap 3``, ``traps 8 and 21``, ``(trap 17)``: in code, docs and tests."""


def references() -> list[tuple[str, str, int]]:
    """Every mention of a trap: where, the page that it names, if any, and the number."""
    log = ROOT / "docs" / "developers" / "log"
    texts = [
        path
        for folder in [*sorted({*items()} - {"py.typed", "configs"}), "docs", "tests", "examples", "benchmarks"]
        for path in ([ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*")))
        if path.suffix in (".py", ".md") and not path.is_relative_to(log) and path != Path(__file__).resolve()
    ]
    return [
        (str(path.relative_to(ROOT)), found[1] or "", int(number))
        for path in texts
        for found in REFERENCE.finditer(path.read_text(encoding="utf-8"))
        for number in [found[2], *re.findall(r"\d+", found[3])]
    ]


@pytest.mark.slow
def test_every_mention_of_a_trap_leads_to_a_row() -> None:
    found, known = references(), set(rows())
    assert len(found) > 20, "the pattern still finds them"
    wrong = [f"{path}: trap {n}" for path, _, n in found if n not in known]
    assert not wrong, f"docs/traps.md has no such row: {wrong}"
    elsewhere = [f"{path}: {page}, trap {n}" for path, page, n in found if page not in ("", "traps.md")]
    assert not elsewhere, f"traps are numbered in docs/traps.md only: {elsewhere}"
