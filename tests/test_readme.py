"""The README quotes files as they are, and stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUOTED = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))


def test_the_two_small_environments_are_quoted() -> None:
    assert set(QUOTED) == {"examples/minimal_env.py", "examples/tool_env.py"}


@pytest.mark.parametrize("path", QUOTED)
def test_quotations_are_the_files(path: str) -> None:
    assert QUOTED[path] == (ROOT / path).read_text(encoding="utf-8"), f"README.md quotes another version of {path}"


def test_the_three_jobs_are_there() -> None:
    for heading in ("## 1. Register", "## 2. Train", "## 3. Evaluate", "## What is not here yet"):
        assert heading in README


def test_a_reader_gets_through_it() -> None:
    assert len(README.splitlines()) < 250
