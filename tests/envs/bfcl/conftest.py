"""The tests here need the package ``bfcl-eval``; without it they say so."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from turnwise.tasks.bfcl.suite import INSTALL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this folder, loudly, where the suite is not installed."""
    if importlib.util.find_spec("bfcl_eval") is None:
        for item in items:
            if item.path.parent == Path(__file__).parent and item.path.stem != "test_without":
                item.add_marker(pytest.mark.skip(reason=f"NOT TESTED: {INSTALL}"))
