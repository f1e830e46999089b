"""The tests here need the package ``miniwob``, Playwright and a Chromium; without them they say so."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from turnwise.envs.web.chromium.launch import executable
from turnwise.errors import UsageError
from turnwise.tasks.miniwob.suite import INSTALL

ANYWHERE = ("test_without",)
"""Tests that need none of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this folder, loudly, where it cannot run."""
    reason = ""
    if importlib.util.find_spec("miniwob") is None:
        reason = f"NOT TESTED: {INSTALL}"
    else:
        try:
            executable()
        except UsageError as error:
            reason = f"NOT TESTED: {error}"
    if not reason:
        return
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem not in ANYWHERE:
            item.add_marker(pytest.mark.skip(reason=reason))
