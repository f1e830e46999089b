"""Sandboxes in containers of a Docker engine, also under a kernel of their own, such as gVisor's."""

from __future__ import annotations

import asyncio
import os
from typing import ClassVar

from ...errors import SandboxError, SandboxUnavailableError
from ..backend import Capabilities, Reaped
from ..loop import LOOP
from ..runner.backend import RunnerBackend
from ..runner.warm import AGE
from ..spec import SandboxSpec
from ..start_slots import StartSlots
from . import containers
from .config import any_user, container_config
from .engine import DOCKER, Engine, Product
from .prepare import Prepared, start_command
from .probe import capabilities, unavailable
from .resolve import Images
from .runner_process import DockerProcess
from .stream import attach

RUNTIME = "TURNWISE_{}_RUNTIME"
"""Environment variable of a backend: the runtime of the engine that runs containers, e.g. ``runsc``."""
IMAGE_IS_GONE = ("no such image", "image not known")
"""Parts of the answers of Docker and Podman to a request for a container of an image that they do not have."""
LOOKS = 0.2
"""Seconds between two searches for leftovers of dead owners: the engine may still be handling their requests."""


class DockerBackend(RunnerBackend):
    """Makes containers, each with the runner in it, and talks to it over one connection that stays open.

    Args:
        engine: address of the engine, e.g. ``unix:///run/docker.sock`` (default: ``DOCKER_HOST``, else the engine of
            ``scripts/start-docker``, else the machine's).
        runtime: container runtime (default: ``TURNWISE_DOCKER_RUNTIME``, else the engine's).
        starts: number of containers that start at a time on this machine; more at once start more slowly (default:
            that of ``StartSlots``).
    """

    name: ClassVar[str] = "docker"
    product: ClassVar[Product] = DOCKER

    def __init__(self, *, engine: str | None = None, runtime: str | None = None, starts: int | None = None) -> None:
        super().__init__()
        self._engine = Engine(engine, self.product)
        self._runtime = runtime or os.environ.get(RUNTIME.format(self.name.upper())) or None
        self._images = Images(self._engine, self._runtime)
        self._start_slots = StartSlots(self.name, starts)
        self._found: Capabilities | None = None

    async def probe(self) -> Capabilities:
        return await LOOP.run(self._probe())

    async def settled(self, spec: SandboxSpec) -> SandboxSpec:
        if spec.image is None:
            return spec
        return spec.model_copy(update={"image": await self._images.id_of(spec.image)})

    async def reap(self) -> Reaped:
        return await LOOP.run(self._reap())

    async def close(self) -> None:
        await super().close()
        await LOOP.run(self._close())

    async def prepare(self, spec: SandboxSpec) -> None:
        await self._image(spec)

    async def start_runner(self, spec: SandboxSpec) -> DockerProcess:
        try:
            return await self._started(spec, await self._image(spec))
        except SandboxError as error:
            if not any(part in str(error).lower() for part in IMAGE_IS_GONE):
                raise
            self._images.forget()  # another process removed it since
            return await self._started(spec, await self._image(spec))

    async def _image(self, spec: SandboxSpec) -> Prepared:
        return await self._images.prepared(await self._images.id_of(spec.image))

    async def _probe(self) -> Capabilities:
        """Return the engine's capabilities; without an engine, try again at the next call."""
        if self._found is None or not self._found.available:
            try:
                self._found = await self._engine.ask(capabilities, self._engine.where, self.name, self._runtime)
            except (SandboxUnavailableError, SandboxError) as error:
                return unavailable(self.name, str(error))
            self.background.start(self._reap())
        return self._found

    async def _started(self, spec: SandboxSpec, image: Prepared) -> DockerProcess:
        """Return a started container; if the caller stops waiting, it is removed as soon as it has started."""
        making = asyncio.ensure_future(self._make(spec, image))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self.background.start(removed(making))
            raise

    async def _make(self, spec: SandboxSpec, image: Prepared) -> DockerProcess:
        config = container_config(
            spec,
            image=image.id,
            volumes=image.volumes,
            command=start_command(),
            user=any_user(),
            labels=containers.labels(spec.limits.lifetime + AGE),
            runtime=self._runtime,
        )
        container = await self._engine.ask(containers.make, config)
        attachment = None
        try:
            attachment = await attach(self._engine.where, self._engine.version, container)
            pid = await self._engine.ask(containers.start, container)
        except BaseException:
            if attachment is not None:
                attachment.writer.transport.abort()
            self.background.start(self._engine.ask(containers.remove, container))
            raise
        return DockerProcess(self._engine, container, attachment, pid)

    async def _reap(self) -> Reaped:
        """Remove leftovers of dead owners, until there are no more."""
        sandboxes, looks = 0, 0
        try:
            while True:
                found = {*await self._engine.ask(containers.abandoned), *self._engine.left}
                if not found and looks:
                    return Reaped(sandboxes=sandboxes)
                sandboxes += sum(await asyncio.gather(*(self._engine.ask(containers.remove, each) for each in found)))
                self._engine.left -= found
                looks += 1
                await asyncio.sleep(LOOKS)
        except SandboxUnavailableError:
            return Reaped()  # without an engine there are no containers

    async def _close(self) -> None:
        await self.background.drain()
        self._engine.close()


async def removed(making: asyncio.Future[DockerProcess]) -> None:
    """Wait until a process is made, and remove it."""
    await (await making).kill()
