"""The sandbox of code in tests of code environments: one that confines, or none at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from turnwise.envs.code.backends import shared_backend
from turnwise.errors import SandboxUnavailableError
from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.loop import LOOP


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    """The first backend that works here and confines; closed behind the last test, as when a process ends."""
    try:
        found = shared_backend(None)
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED, for want of a sandbox: {error}")
    yield found
    LOOP.wait(found.close())
    shared_backend.cache_clear()


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a backend that works here."""
    try:
        backend = shared_backend(request.param)
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED, for want of a sandbox: {error}")
    yield request.param
    LOOP.wait(backend.close())
    shared_backend.cache_clear()
