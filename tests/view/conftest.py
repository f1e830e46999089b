"""A viewer over a folder of runs in every state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from turnwise.view.app import build_app
from turnwise.view.runs import Runs

from .browsing import address, browsed, browser, visit
from .folders import build, running

__all__ = ["address", "browsed", "browser", "visit"]  # fixtures

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of runs that tests only read."""
    root = build(tmp_path_factory.mktemp("view") / "runs")
    with running(root / "live"):
        yield root


@pytest.fixture
def runs(shared: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the runs for a test that changes them."""
    root = Path(shutil.copytree(shared, tmp_path / "runs"))
    with running(root / "live"):
        yield root


def client_of(root: Path) -> TestClient:
    """Open the viewer on a folder as a browser with the token."""
    client = TestClient(build_app(Runs([root]), TOKEN), base_url="http://127.0.0.1:8484")
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


@pytest.fixture(scope="package")
def client(shared: Path) -> TestClient:
    """A browser with the token."""
    return client_of(shared)


@pytest.fixture(scope="package")
def ids(client: TestClient) -> dict[str, str]:
    """Ids of the runs by name."""
    return {run["name"]: run["id"] for run in client.get("/api/runs").json()}
