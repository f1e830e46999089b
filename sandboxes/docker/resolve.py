"""The image of a sandbox: names become ids, and ids become images with the runner in them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...errors import SandboxUnavailableError
from .engine import Engine
from .image import host_image
from .prepare import Prepared, inspected, prepare

if TYPE_CHECKING:
    from docker import APIClient


class Images:
    """The images of one engine that sandboxes run on.

    Args:
        engine: engine of the images.
        runtime: container runtime; ``None`` for the engine's own.
    """

    def __init__(self, engine: Engine, runtime: str | None) -> None:
        self._engine, self._runtime = engine, runtime
        self._lock = asyncio.Lock()
        self._host = ""
        self._prepared = dict[str, Prepared]()

    async def id_of(self, name: str | None) -> str:
        """Return the id of an image.

        Args:
            name: a name, digest or id; ``None`` for the image of this machine, which is made if necessary.

        Raises:
            SandboxUnavailableError: the engine has no such image.
            SandboxError: the engine failed.
        """
        if name is not None:
            return name if name in self._prepared else await self._engine.ask(id_of, name)
        async with self._lock:
            self._host = self._host or await self._engine.ask(host_image)
            return self._host

    def forget(self) -> None:
        """Look every image up again, since a known one no longer exists."""
        self._host = ""
        self._prepared.clear()

    async def prepared(self, image: str) -> Prepared:
        """Return the image with the runner in it.

        Args:
            image: id of the original image.

        Raises:
            SandboxUnavailableError: its Python cannot run the runner.
            SandboxError: the engine failed.
        """
        async with self._lock:
            if image not in self._prepared:
                self._prepared[image] = await self._engine.ask(prepare, image, self._runtime)
            return self._prepared[image]


def id_of(api: APIClient, name: str) -> str:
    """Return the id of an image by its name, digest or id.

    Raises:
        SandboxUnavailableError: the engine does not have it; nothing is pulled.
    """
    import docker

    try:
        return str(inspected(api, name)["Id"])
    except docker.errors.NotFound:
        raise SandboxUnavailableError(
            f"the docker engine has no image {name!r}, and Turnwise does not download any: docker pull "
            f"{name}; or omit the image to use this machine's own Python and tools"
        ) from None
