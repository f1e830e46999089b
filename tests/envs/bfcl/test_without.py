"""Without ``bfcl-eval``, the message says how to install it, and nothing else breaks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.registry import entries
from turnwise.errors import UsageError
from turnwise.tasks.bfcl import suite

ID = "turnwise/BFCLMultiTurnBase-v0"


@pytest.fixture(params=["bfcl_eval", "mpmath"])
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A machine without one of the two packages."""
    found = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        return None if name == request.param else found("json" if name in ("bfcl_eval", "mpmath") else name, package)

    suite.installed.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", find)
    yield request.param
    suite.installed.cache_clear()


def test_the_error_says_how_to_install_it(missing: str) -> None:
    with pytest.raises(UsageError, match=r"pip install 'turnwise\[bfcl\]' && pip install --no-deps bfcl-eval"):
        tw.make(ID)


def test_listing_environments_imports_nothing_of_it() -> None:
    assert ID in {entry.id for entry in entries()}
    code = (
        "import sys; from turnwise.envs.registry import entries; entries(); "
        "sys.exit(any(name.startswith(('bfcl_eval', 'turnwise.envs.bfcl')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", f"import turnwise; {code}"], timeout=120).returncode == 0
