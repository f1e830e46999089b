"""vLLM's own four phases of weight transfer: through files that both sides see, from memory, or another backend."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import torch
from torch import Tensor

from ...errors import InfrastructureError, TurnwiseError, UsageError
from ...inference.serving.launch.process import FILES
from ...inference.serving.server import Pause, Server
from .exchange import Exchange
from .replicas import Replicas
from .transfer import Changeable


class Backend(Protocol):
    """How the bytes go, between the phases."""

    @property
    def name(self) -> str:
        """What the servers have to be started with."""
        ...

    @property
    def shared(self) -> bool:
        """Whether any server may take an update; otherwise only those that took part in the first phase."""
        ...

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """What a replica is told in the first phase."""
        ...

    async def join(self) -> None:
        """The trainer's side of the first phase, while the servers are in it."""
        ...

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Whatever can be done while the servers go on."""
        ...

    def update_info(self, weights: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """What the servers are told in the third phase."""
        ...

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """The trainer's side of the third phase, while the servers are in it."""
        ...

    def done(self) -> None:
        """The servers have it."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Native(Replicas):
    """``init``, ``start``, ``update``, ``finish``, as vLLM calls them.

    Args:
        policy: of replicas that were started with ``--weight-transfer-config``.
        backend: how the bytes go.
        mode: see ``Pause``.
        timeout: seconds that a server has for one phase.
    """

    def __init__(
        self, policy: Changeable, backend: Backend, *, mode: Pause = Pause.KEEP, timeout: float = 600.0
    ) -> None:
        super().__init__(policy, mode=mode, timeout=timeout)
        self.backend = backend
        self._met: tuple[Server, ...] = ()

    async def init(self) -> None:
        """See ``Transport``."""
        await super().init()
        wanted = self.backend.name
        for address, can in self.can.items():
            if can.transfer != wanted:
                started = f"with the backend {can.transfer!r}" if can.transfer else "without weight transfer"
                raise UsageError(
                    f"server {address} was started {started}, and here {wanted!r} is wanted: start it with "
                    f'--weight-transfer-config \'{{"backend": "{wanted}"}}\', or set server.transfer = reload'
                )
        self._met = self.ready
        place = {server.address: number for number, server in enumerate(self._met)}
        await _both(
            self.each(
                "begin a weight transfer",
                self._met,
                lambda server: server.init_transfer(self.backend.init_info(place[server.address])),
            ),
            self.backend.join(),
        )

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        await self.backend.stage(weights, version)

    async def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        if not self.backend.shared and self.ready != self._met:
            raise InfrastructureError(
                f"the backend {self.backend.name!r} needs the same servers that it started with; once all are back, "
                "continue the run with --resume"
            )
        info = self.backend.update_info(weights)
        await self.every("start an update", _begin)
        await _both(self.every("take an update", lambda server: server.update(info)), self.backend.stream(weights))
        await self.every("finish an update", lambda server: server.finish_update(version))
        await self.forget()
        self.backend.done()

    async def close(self) -> None:
        """See ``Transport``."""
        self.backend.close()


class Files:
    """The backend of ``inference/serving/worker/turnwise_vllm_worker.py``: a folder of safetensors files per version.

    Args:
        exchange: where they are written.
    """

    name = FILES
    shared = True

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._count = 0
        self._staged = ""

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """There is nothing to agree on."""
        return {}

    async def join(self) -> None:
        """Nothing to join."""

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Write the files."""
        self.exchange.remove(self._staged)
        self._count += 1
        self._staged = f"v{version}-{self._count}"
        await asyncio.to_thread(self.exchange.write, self._staged, weights)

    def update_info(self, weights: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """Where the files are."""
        return {"path": str(self.exchange.seen(self._staged))}

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """The files are there already."""

    def done(self) -> None:
        """Remove the files."""
        self.exchange.remove(self._staged)

    def close(self) -> None:
        """Remove the folder."""
        self.exchange.close()


class Memory:
    """The backend for an engine in this process (``EngineServer``): the weights themselves, which leave no memory.

    Args:
        dtype: what floating-point weights are converted to: what the engine holds; as they are when ``None``.
    """

    name = FILES
    shared = True

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """There is nothing to agree on."""
        return {}

    async def join(self) -> None:
        """Nothing to join."""

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Nothing to prepare."""

    def update_info(self, weights: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """The weights."""
        floats = {name: each for name, each in weights.items() if each.is_floating_point()}
        return {"weights": {**weights, **{name: each.detach().to(self.dtype) for name, each in floats.items()}}}

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """They are there already."""

    def done(self) -> None:
        """Nothing is left."""

    def close(self) -> None:
        """Nothing is left."""


async def _begin(server: Server) -> None:
    try:
        await server.start_update()
    except TurnwiseError:
        # A trainer that was killed between the phases left its update open, and vLLM starts no second one. An update
        # that fails is forgotten: so let it fail.
        with suppress(TurnwiseError):
            await server.update({})
        await server.start_update()


async def _both(theirs: Any, ours: Any) -> None:
    """Await the servers' side and ours, which need one another; where one fails the other is not waited for."""
    tasks = [asyncio.ensure_future(theirs), asyncio.ensure_future(ours)]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
