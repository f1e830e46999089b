"""An engine for the tests that need one, with this machine's own image on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from turnwise.envs.harbor import images
from turnwise.errors import SandboxUnavailableError
from turnwise.sandboxes.docker.engine import address, connect
from turnwise.sandboxes.docker.image import host_image

from .worlds import task_folder


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """An engine that runs here; without one the test is skipped, and says what to start."""
    try:
        client = connect(address())
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED on a docker engine: {error}")
    host_image(client)
    yield
    for image in client.images(images.REPOSITORY, quiet=True):
        with contextlib.suppress(docker.errors.APIError):  # the image with the runner in it builds on this one
            client.remove_image(image, force=True)
    client.close()


@pytest.fixture(scope="session")
def demo(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the hand-written task."""
    return task_folder(tmp_path_factory.mktemp("harbor") / "evens")
