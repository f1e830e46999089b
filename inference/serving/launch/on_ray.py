"""``RayHost``: a ``ServerHost`` as an actor that Ray places, and places again when its process or node dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from ....errors import InfrastructureError
from .host import HostOptions, HostStatus, Listing, ServerHost

ANSWER = 2.0
"""Seconds to wait for the state of a host. A request that looks for a replica may wait for it."""
FIND = 30.0
"""Seconds for a host to look for a folder."""
CLOSING = 30.0
"""Seconds for a host to stop its server before it is killed, which ends the server too."""


class PlacedHost(ServerHost):
    """A host that listens on the address under which the cluster knows its node."""

    def __init__(self, options: HostOptions) -> None:
        super().__init__(options, str(ray.util.get_node_ip_address()))


class RayHost:
    """The driver's handle of a host.

    Args:
        options: how to serve the model.
        resources: resources that the server occupies.
        runtime_env: Ray's ``runtime_env`` of the host.
    """

    def __init__(
        self, options: HostOptions, resources: Mapping[str, float], runtime_env: Mapping[str, Any] | None = None
    ) -> None:
        needs = dict(resources)
        named: dict[str, Any] = {"num_cpus": needs.pop("CPU", 0.0), "num_gpus": needs.pop("GPU", 0.0)}
        if memory := needs.pop("memory", 0.0):
            named["memory"] = int(memory)
        if runtime_env:
            named["runtime_env"] = dict(runtime_env)
        self._create = (
            ray.remote(PlacedHost)
            .options(
                **named,
                resources=needs or None,
                max_restarts=-1,  # Ray starts it again, on another node if need be; the driver may be learning
                max_task_retries=0,
                max_concurrency=8,
                scheduling_strategy="SPREAD",
            )
            .remote
        )
        self._options = options
        self._actor: Any = None
        self._asking: asyncio.Task[HostStatus] | None = None
        self._answered = False

    def start(self) -> None:
        """Have it placed, now or as soon as the cluster has room for it."""
        self._actor = self._create(self._options)

    async def status(self) -> HostStatus:
        """See ``Host``."""
        asking = self._asking
        if asking is None or asking.done() or asking.get_loop() is not asyncio.get_running_loop():
            asking = self._asking = asyncio.create_task(_awaited(self._actor.status.remote()))
            asking.add_done_callback(_retrieve)
        await asyncio.wait([asking], timeout=ANSWER)
        if not asking.done():  # it has no place yet: keep asking, instead of queueing a question for each request
            raise InfrastructureError("its host has no place on the cluster yet, or does not answer")
        try:
            found = asking.result()
        except RayError as error:
            raise InfrastructureError(f"its host does not answer: {_line(error)}") from None
        self._answered = True
        return found

    async def find(self, folder: str, entry: str, listing: Listing) -> str:
        """See ``Host``."""
        try:
            async with asyncio.timeout(FIND):
                return str(await self._actor.find.remote(folder, entry, listing))
        except (RayError, TimeoutError) as error:
            raise InfrastructureError(f"its host does not answer: {_line(error)}") from None

    async def stop(self) -> None:
        """Stop the server, and give its place back."""
        actor, self._actor = self._actor, None
        if actor is None:
            return
        with contextlib.suppress(RayError, TimeoutError):
            async with asyncio.timeout(CLOSING if self._answered else ANSWER):
                await actor.stop.remote()
        with contextlib.suppress(Exception):  # the cluster may have ended
            ray.kill(actor)


async def _awaited(reference: Any) -> Any:
    return await reference


def _retrieve(task: asyncio.Task[HostStatus]) -> None:
    if not task.cancelled():
        task.exception()


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if isinstance(error, RayActorError) and "Error" in lines[-1] else 0]
