from __future__ import annotations

from pathlib import Path

import pytest

from .small import clone, cloning


@pytest.fixture(scope="session")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of behavior cloning, whose ``model`` LOOP starts from."""
    folder = tmp_path_factory.mktemp("cloned") / "bc"
    clone(cloning(folder))
    return folder
