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
from ...inference.serving.server import Pause, Sampler, weight_receiver
from .replicas import Replicas
from .shared_folder import SharedFolder
from .transfer import Changeable


class Backend(Protocol):
    """How the bytes travel between the phases."""

    @property
    def name(self) -> str:
        """Name of the backend with which the servers have to be started."""
        ...

    @property
    def shared(self) -> bool:
        """Whether any server may take an update; otherwise only those that took part in the first phase."""
        ...

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """Return the information for a replica in the first phase."""
        ...

    async def join(self) -> None:
        """Run the trainer's side of the first phase, while the servers run theirs."""
        ...

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Prepare an update while the servers keep sampling."""
        ...

    def update_info(self, weights: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """Return the information for the servers in the third phase."""
        ...

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """Run the trainer's side of the third phase, while the servers run theirs."""
        ...

    def done(self) -> None:
        """Clean up after the servers have an update."""
        ...

    def close(self) -> None:
        """Clean up at the end of the run."""
        ...


class Native(Replicas):
    """Transfer by ``init``, ``start``, ``update`` and ``finish``, as vLLM calls the phases.

    Args:
        policy: policy over replicas that were started with ``--weight-transfer-config``.
        backend: backend that moves the bytes.
        mode: see ``Pause``.
        timeout: seconds that a server has for one phase.
    """

    def __init__(
        self, policy: Changeable, backend: Backend, *, mode: Pause = Pause.KEEP, timeout: float = 600.0
    ) -> None:
        super().__init__(policy, mode=mode, timeout=timeout)
        self.backend = backend
        self._met: tuple[Sampler, ...] = ()

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
                lambda server: weight_receiver(server).init_transfer(self.backend.init_info(place[server.address])),
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
        await _both(
            self.every("take an update", lambda server: weight_receiver(server).update(info)),
            self.backend.stream(weights),
        )
        await self.every("finish an update", lambda server: weight_receiver(server).finish_update(version))
        await self.forget()
        self.backend.done()

    async def close(self) -> None:
        """See ``Transport``."""
        self.backend.close()


class Files:
    """The backend of ``inference/serving/worker/turnwise_vllm_worker.py``: a folder of safetensors files per version.

    Args:
        exchange: folder of the files.
    """

    name = FILES
    shared = True

    def __init__(self, exchange: SharedFolder) -> None:
        self.exchange = exchange
        self._count = 0
        self._staged = ""

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """Return nothing: this backend needs no agreement."""
        return {}

    async def join(self) -> None:
        """Do nothing: there is no group to join."""

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Write the files."""
        self.exchange.remove(self._staged)
        self._count += 1
        self._staged = f"v{version}-{self._count}"
        await asyncio.to_thread(self.exchange.write, self._staged, weights)

    def update_info(self, weights: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """Return the path of the files."""
        return {"path": str(self.exchange.seen(self._staged))}

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """Do nothing: the files are there already."""

    def done(self) -> None:
        """Remove the files."""
        self.exchange.remove(self._staged)

    def close(self) -> None:
        """Remove the folder."""
        self.exchange.close()


class Memory:
    """The backend for an engine in this process (``EngineServer``): the weights themselves, without a copy.

    Args:
        dtype: type to convert floating-point weights to, as in the engine; ``None`` to keep theirs.
    """

    name = FILES
    shared = True

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """Return nothing: this backend needs no agreement."""
        return {}

    async def join(self) -> None:
        """Do nothing: there is no group to join."""

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Do nothing: there is nothing to prepare."""

    def update_info(self, weights: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """Return the weights."""
        floats = {name: each for name, each in weights.items() if each.is_floating_point()}
        return {"weights": {**weights, **{name: each.detach().to(self.dtype) for name, each in floats.items()}}}

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """Do nothing: the weights are there already."""

    def done(self) -> None:
        """Do nothing: there is nothing to clean up."""

    def close(self) -> None:
        """Do nothing: there is nothing to clean up."""


async def _begin(server: Sampler) -> None:
    receiver = weight_receiver(server)
    try:
        await receiver.start_update()
    except TurnwiseError:
        # A trainer that was killed between the phases left its update open, and vLLM starts no second one. vLLM forgets
        # an update that fails, so make it fail.
        with suppress(TurnwiseError):
            await receiver.update({})
        await receiver.start_update()


async def _both(theirs: Any, ours: Any) -> None:
    """Await the servers' side and the trainer's, which need each other; if one fails, cancel the other."""
    tasks = [asyncio.ensure_future(theirs), asyncio.ensure_future(ours)]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
