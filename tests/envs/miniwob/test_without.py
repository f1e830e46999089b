"""Without ``miniwob``, the message says how to install it, and nothing else breaks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.registry import entries
from turnwise.errors import UsageError
from turnwise.tasks.miniwob import suite
from turnwise.tasks.spec import Split

ID = "turnwise/MiniWoB-ClickTest2-v1"


def test_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        return None if name == "miniwob" else found(name, package)

    suite.installed.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(UsageError, match=r"pip install 'turnwise\[miniwob\]'"):
        tw.make(ID)
    suite.installed.cache_clear()


def test_listing_environments_imports_nothing_of_it() -> None:
    known = {entry.id for entry in entries()}
    assert {suite.id_of(page) for page in suite.TASKS} <= known
    assert len(suite.TASKS) == len(set(suite.TASKS)) == len({suite.id_of(page) for page in suite.TASKS}) == 128
    code = (
        "import sys; from turnwise.envs.registry import entries; entries(); "
        "sys.exit(any(name.startswith(('miniwob', 'playwright', 'turnwise.envs.miniwob')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", f"import turnwise; {code}"], timeout=120).returncode == 0


def test_a_seed_is_upstreams_and_only_pages_with_a_test_part_have_a_test_split() -> None:
    family = suite.family_of("flight.AA")
    assert family.generate(family.spec(5)) == suite.MiniwobTask("flight.AA", 5, "train")
    held_out = family.spec(5, split=Split.TEST_TEMPLATE)
    assert family.generate(held_out) == suite.MiniwobTask("flight.AA", 5, "test")
    assert family.generate(held_out).path == "flight/AA/wrapper.html"
    assert suite.family_of("click-test").splits == (Split.TRAIN,)
    with pytest.raises(UsageError, match="no task 'click-everything'"):
        suite.MiniwobFamily("click-everything")
