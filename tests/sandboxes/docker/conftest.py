"""An engine for the tests that need one, and a backend on it that leaves nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

from turnwise.errors import SandboxUnavailableError
from turnwise.sandboxes.docker.backend import DockerBackend
from turnwise.sandboxes.docker.engine import address, connect

if TYPE_CHECKING:
    from docker import APIClient


@pytest.fixture
def api() -> Iterator[APIClient]:
    """A client of an engine that runs here; without one the test is skipped, and says what to start."""
    try:
        client = connect(address())
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED on a docker engine: {error}")
    yield client
    client.close()


@pytest.fixture
async def backend(api: APIClient) -> AsyncIterator[DockerBackend]:
    """Sandboxes on that engine."""
    made = DockerBackend()
    yield made
    await made.close()
