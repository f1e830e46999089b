"""vLLM's own four phases of weight transfer: through files that both sides see, from memory, or another backend."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ...errors import TurnwiseError, UsageError
from ...inference.serving.launch.process import FILES
from ...inference.serving.server import Capabilities, Leaver, Pause, Sampler, weight_receiver
from ...logs import event
from .replicas import Replicas
from .shared_folder import SharedFolder
from .transfer import Changeable

LOG = logging.getLogger(__name__)


class Backend(Protocol):
    """How the bytes travel between the phases."""

    @property
    def name(self) -> str:
        """Name of the backend with which the servers have to be started."""
        ...

    @property
    def shared(self) -> bool:
        """Whether any server may take an update; otherwise only those that took part in the last first phase."""
        ...

    def meet(self, servers: Sequence[Capabilities]) -> None:
        """Prepare a first phase with these servers, in their order."""
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

    def updates(self, weights: Mapping[str, Tensor]) -> Iterator[Mapping[str, Any]]:
        """Yield the information for the servers in the third phase, for one call after another."""
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


class Anywhere:
    """A backend without an agreement between the sides, so that any server may take an update."""

    shared = True

    def meet(self, servers: Sequence[Capabilities]) -> None:
        """Do nothing: every server is treated alike."""

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """Return nothing: there is nothing to agree on."""
        return {}

    async def join(self) -> None:
        """Do nothing: there is no group to join."""

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Do nothing: there is nothing to prepare."""

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """Do nothing: what the servers need is in the information."""

    def done(self) -> None:
        """Do nothing: there is nothing to clean up."""

    def close(self) -> None:
        """Do nothing: there is nothing to clean up."""


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
        self._processes: dict[str, float | None] = {}

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
        await self._meet()

    async def _meet(self, *, again: bool = False) -> None:
        """Run the first phase with all servers that are up.

        Args:
            again: whether servers may still be in an earlier group.
        """
        met = self.ready
        self._met = ()
        if again:
            await self.every("leave its group", _leave)
            met = self.ready
        anyone = next(iter(self.can.values()))  # one that joined later is like the others
        self.backend.meet([self.can.get(server.address, anyone) for server in met])
        place = {server.address: number for number, server in enumerate(met)}
        await _both(
            self.each(
                "begin a weight transfer",
                met,
                lambda server: weight_receiver(server).init_transfer(self.backend.init_info(place[server.address])),
            ),
            self.backend.join(),
        )
        self._met, self._processes = met, {} if self.backend.shared else await self._started()

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        await self.backend.stage(weights, version)
        if isinstance(self.backend, Files):
            await self.send_ahead(self.backend.folder)

    async def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        if not self.backend.shared and await self._changed():
            event(LOG, "sync", "servers came or went: all meet again", {"version": version})
            await self._meet(again=True)
        met, self._met = self._met, ()  # until all have it: a group in which one failed is unusable
        await self.every("start an update", _begin)
        for info in self.backend.updates(weights):
            await _both(self._take(info), self.backend.stream(weights))
        await self.every("finish an update", lambda server: weight_receiver(server).finish_update(version))
        await self.forget()
        self.backend.done()
        self._met = met

    @property
    def keeps(self) -> bool:
        """See ``Transport``."""
        return isinstance(self.backend, Files) and self.backend.held

    async def give(self, server: Sampler, version: int) -> None:
        """Run all four phases with one server, from the files of the last transfer."""
        receiver = weight_receiver(server)
        await receiver.init_transfer(self.backend.init_info(0))
        await _begin(server)
        for info in self.backend.updates({}):
            await receiver.update(info)
        await receiver.finish_update(version)

    async def _take(self, info: Mapping[str, Any]) -> None:
        await self.every("take an update", lambda server: weight_receiver(server).update(info))

    async def _changed(self) -> bool:
        """Return whether the servers that are up are other processes than those that met."""
        before = {server.address: self._processes.get(server.address) for server in self._met}
        return await self._started() != before

    async def _started(self) -> dict[str, float | None]:
        """Return the start times of the servers that are up: one that was restarted belongs to no group."""
        found: dict[str, float | None] = {}

        async def note(server: Sampler) -> None:
            found[server.address] = await server.started() if isinstance(server, Leaver) else None

        await self.every("report its start", note)
        return found

    async def close(self) -> None:
        """See ``Transport``."""
        self.backend.close()


class Files(Anywhere):
    """The backend of ``inference/serving/worker/turnwise_vllm_worker.py``: a folder of safetensors files per version.

    Args:
        exchange: folder of the files.
        keep: whether to keep the files until the next version, for servers that restart.
    """

    name = FILES

    def __init__(self, exchange: SharedFolder, *, keep: bool = False) -> None:
        self.exchange = exchange
        self.keep = keep
        self.held = False
        """Whether the folder has the version that the servers have."""
        self._count = 0
        self._staged = ""

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Write the files."""
        self.held = False
        self.exchange.remove(self._staged)
        self._count += 1
        self._staged = f"v{version}-{self._count}"
        await asyncio.to_thread(self.exchange.write, self._staged, weights)

    def updates(self, weights: Mapping[str, Tensor]) -> Iterator[Mapping[str, Any]]:
        """Yield the path of the files."""
        yield {"path": str(self.folder)}

    @property
    def folder(self) -> Path:
        """Path of the files of the staged version on the servers."""
        return self.exchange.seen(self._staged)

    def done(self) -> None:
        """Remove the files, unless they are kept."""
        self.held = self.keep
        if not self.keep:
            self.exchange.remove(self._staged)

    def close(self) -> None:
        """Remove the folder."""
        self.exchange.close()


class Memory(Anywhere):
    """The backend for an engine in this process (``EngineServer``): the weights themselves, without a copy.

    Args:
        dtype: type to convert floating-point weights to, as in the engine; ``None`` to keep theirs.
    """

    name = FILES

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype

    def updates(self, weights: Mapping[str, Tensor]) -> Iterator[Mapping[str, Any]]:
        """Yield the weights."""
        floats = {name: each for name, each in weights.items() if each.is_floating_point()}
        yield {"weights": {**weights, **{name: each.detach().to(self.dtype) for name, each in floats.items()}}}


async def _leave(server: Sampler) -> None:
    if isinstance(server, Leaver):
        await server.leave_transfer()


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
