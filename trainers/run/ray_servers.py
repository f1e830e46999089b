"""vLLM servers that Ray places, made from their settings and the run's model."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ...errors import InfrastructureError, UsageError
from ...inference.models import save_model
from ...inference.serving.launch.host import FRUITLESS, HostOptions, HostState, listing_of
from ...inference.serving.launch.process import ServerOptions
from ...inference.serving.placed import PlacedServer
from ...rollouts.engine import require_ray
from ..learning.lora import adapted, merged
from ..learning.parallel import ProcessGroup, gather_on_main
from .engine_settings import RayServersConfig

API_KEY = "VLLM_API_KEY"
"""Environment variable with the key of servers, for both sides."""
POLL = 0.5
"""Seconds between two looks at servers that start."""


class RayServers:
    """Servers on a cluster to which this process is connected.

    Args:
        config: their settings.
        options: options of each server.
        folder: folder with the model that they start with.
        keep: whether ``stop`` leaves the folder; otherwise it removes it.
        client: arguments of each ``ServerClient``.

    Raises:
        UsageError: Ray is not installed.
    """

    def __init__(
        self, config: RayServersConfig, options: ServerOptions, folder: Path, *, keep: bool = False, **client: Any
    ) -> None:
        require_ray("server.ray")
        from ...inference.serving.launch.on_ray import RayHost  # Ray, which nothing else needs

        self.config, self._folder, self._keep = config, folder, keep
        if key := client.get("api_key"):
            options = options.model_copy(update={"environment": {**options.environment, API_KEY: key}})
        given = HostOptions(
            str(folder.absolute()),
            listing_of(folder),
            options,
            config.python,
            config.start_timeout,
            config.health_timeout,
        )
        self._hosts = [RayHost(given, config.resources, config.runtime_env) for _ in range(config.replicas)]
        push = config.delivery == "push"
        self.servers = [
            PlacedServer(f"replica-{number}", host, folder, push=push, **client)
            for number, host in enumerate(self._hosts)
        ]

    async def start(self) -> Mapping[PlacedServer, str]:
        """Start all, and wait for as many as the run needs; return the others, each with the reason.

        Raises:
            UsageError: a server cannot be started as the settings say, or has another version of Turnwise.
            InfrastructureError: one keeps ending, or too few are ready in time.
        """
        for host in self._hosts:
            host.start()
        deadline = time.monotonic() + self.config.start_timeout
        needed = self.config.wait_for or self.config.replicas
        while True:
            late = {server: why for server in self.servers if (why := await _missing(server))}
            if len(self.servers) - len(late) >= needed:
                return late
            if time.monotonic() > deadline:
                why = "; ".join(f"{server.address}: {why}" for server, why in late.items())
                raise InfrastructureError(
                    f"{len(self.servers) - len(late)} of {needed} servers are ready after "
                    f"{self.config.start_timeout:g} s (server.ray.start_timeout): {why}"
                )
            await asyncio.sleep(POLL)

    async def stop(self) -> None:
        """Stop all, and remove the model's folder unless it is kept."""
        await asyncio.gather(*(host.stop() for host in self._hosts))
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)


async def _missing(server: PlacedServer) -> str:
    """Return why a server is not ready, or nothing.

    Raises:
        UsageError: it never will be.
        InfrastructureError: it keeps ending.
    """
    try:
        found = await server.status()
    except InfrastructureError as error:
        return str(error)
    if found.turnwise != (own := version("turnwise")):
        raise UsageError(
            f"{found.machine} has Turnwise {found.turnwise}, and this process {own}; install the same version, or set "
            "server.ray.runtime_env"
        )
    if found.state is HostState.FAILED:
        raise UsageError(f"{server.address} cannot start on {found.machine}: {found.said}")
    if found.failures >= FRUITLESS and not found.starts:
        raise InfrastructureError(f"{server.address} does not start on {found.machine}: {found.said}")
    return "" if found.state is HostState.READY else f"{found.state} on {found.machine}"


def save_base(model: Any, tokenizer: Any, folder: Path, world: ProcessGroup) -> None:
    """Write the model that servers start with: without the adapters, if it has some; all processes call it together.

    Args:
        model: model of the learner, sharded if several processes learn.
        tokenizer: tokenizer of the model.
        folder: folder to write; leftovers of a run that was killed are replaced.
        world: the processes that learn together; the main one writes.
    """
    weights = gather_on_main(model.state_dict(), world) if world.size > 1 or adapted(model) else None
    if not world.is_main:
        return
    if weights is not None and adapted(model):
        bare = {name: torch.zeros_like(value) if "lora_B" in name else value for name, value in weights.items()}
        weights = merged(model, bare)
    shutil.rmtree(folder, ignore_errors=True)
    save_model(model, tokenizer, folder, weights=weights)
