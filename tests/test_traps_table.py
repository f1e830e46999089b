"""docs/traps.md names a test for every trap, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

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
