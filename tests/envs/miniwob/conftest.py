"""The tests here need the package ``miniwob``, Playwright and a Chromium; without them they say so."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from turnwise.tasks.miniwob.suite import INSTALL

ANYWHERE = ("test_without", "test_solutions")
"""What needs none of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this folder, loudly, where it cannot run."""
    packages = all(importlib.util.find_spec(name) for name in ("miniwob", "playwright"))
    program = any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    if packages and program:
        return
    reason = f"NOT TESTED: {INSTALL}" if not packages else "NOT TESTED: apt-get install chromium"
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem not in ANYWHERE:
            item.add_marker(pytest.mark.skip(reason=reason))
