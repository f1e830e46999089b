"""A viewer over a folder of runs in every state."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from turnwise.view.app import build_app
from turnwise.view.runs import Runs

from .fakes import episode, family, store, training

TOKEN = "a-token-that-is-long-enough"


def build(root: Path) -> Path:
    """Write runs that finished, were interrupted, failed and are damaged, an evaluation, and one to be locked."""
    store(training(root / "done") / "training_episodes", family())
    training(root / "killed", done=4, end=None, seed=1)
    training(root / "broken", done=3, end="failed", seed=2)
    (training(root / "torn") / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0}\nnonsense\n{"step": 2}\n')
    many = [episode(f"t{n}", success=n % 3 > 0, level=1 + n % 4, group_id=f"g{n // 4}") for n in range(120)]
    about: dict[str, Any] = {"env": "turnwise/Maze-v0", "policy": "openai:model", "api": {"key": "secret-of-the-api"}}
    store(root / "eval" / "episodes", many, per_part=32, run=about)
    training(root / "live", steps=20, done=5, end=None, seed=3)
    return root


@contextmanager
def running(run: Path) -> Iterator[None]:
    """Hold the lock of a run, as its process does."""
    with (run / "_lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
