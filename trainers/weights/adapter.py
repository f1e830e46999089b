"""Adapters of low rank through files: small, and the base model on the server is never touched."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch import Tensor

from ...errors import TurnwiseError, UsageError
from ...inference.serving.server import Pause, Server
from ..learning.lora import save_adapter
from .exchange import Exchange
from .replicas import Replicas
from .transfer import Changeable


class Adapter(Replicas):
    """Saves the adapters as peft does, under a new name each time, and has requests name the newest.

    Under ``Pause.KEEP`` nothing is paused: a request goes on with the adapter that it began with, which is unloaded
    when no request uses it any more and the next one comes. So a server holds two at most, ours. A process that was
    killed leaves adapters on the servers; the next one of the run knows them from a note, and unloads them.

    Args:
        policy: of replicas that were started with ``--enable-lora`` and runtime updating, on the model's base.
        exchange: the folder that they see.
        model: with adapters; only its structure is looked at.
        rank: of the adapters.
        base: where the frozen part came from, for the files.
        mode: see ``Pause``.
        timeout: seconds that a server has for one verb.
    """

    whole = False

    def __init__(
        self,
        policy: Changeable,
        exchange: Exchange,
        model: Any,
        *,
        rank: int,
        base: Mapping[str, str],
        mode: Pause = Pause.KEEP,
        timeout: float = 600.0,
    ) -> None:
        super().__init__(policy, mode=mode, timeout=timeout)
        self.exchange = exchange
        self.model = model
        self.rank = rank
        self.base = base
        self._mark = f"turnwise-{secrets.token_hex(3)}"  # servers refuse a name twice, also from a run that died
        self._count = 0
        self._staged = ""
        self._loaded: list[str] = []

    @property
    def adapter(self) -> str | None:
        """The newest."""
        return self._loaded[-1] if self._loaded else None

    async def init(self) -> None:
        """See ``Transport``."""
        self.needs_control = self.mode is not Pause.KEEP
        await super().init()
        for address, can in self.can.items():
            if not can.adapters:
                raise UsageError(
                    f"server {address} loads no adapters while it runs: start it with --enable-lora "
                    f"--max-lora-rank {self.rank} and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, or set server.transfer = "
                    "native, which sends the merged weights"
                )
            if 0 < can.max_rank < self.rank:
                raise UsageError(
                    f"server {address} takes adapters up to rank {can.max_rank}, and lora.rank = {self.rank}: start it "
                    f"with --max-lora-rank {self.rank}, or lower lora.rank"
                )
        left = self.exchange.noted()
        await self.each("unload adapters", self.ready, lambda server: _unload(server, left.get(server.address, ())))

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        self._count += 1
        name = f"{self._mark}-v{version}-{self._count}"
        await asyncio.to_thread(
            self.exchange.fill, name, lambda folder: save_adapter(self.model, weights, folder, base=self.base)
        )
        self._note(name)  # before it is sent: whoever comes next unloads in vain rather than not at all
        self._staged = name

    async def pause(self) -> None:
        """See ``Transport``."""
        if self.mode is Pause.KEEP:
            await self.policy.settle()  # with the version before the one that serves
            self._ready = await self.policy.roll_call()
        else:
            await super().pause()
        await self._retire(self._loaded[:-1])

    async def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        name = self._staged
        self._loaded.append(name)
        try:
            await self.every("load an adapter", lambda server: server.load_adapter(name, self.exchange.seen(name)))
        except TurnwiseError:
            self._loaded.remove(name)
            raise
        if all(can.control for can in self.can.values()):
            await self.forget()  # elsewhere the cache is kept apart by the adapter's name, and no name comes twice

    async def resume(self) -> None:
        """See ``Transport``."""
        if self.mode is not Pause.KEEP:
            await super().resume()
            await self._retire(self._loaded[:-1])

    async def close(self) -> None:
        """See ``Transport``."""
        with suppress(TurnwiseError):
            await self._retire(list(self._loaded))
        self.exchange.close()

    async def _retire(self, names: Sequence[str]) -> None:
        """Unload adapters that nothing uses any more, and remove their files."""
        if not names:
            return
        await self.each("unload an adapter", self.policy.live, lambda server: _unload(server, names))
        self.exchange.remove(*names)
        self._loaded = [name for name in self._loaded if name not in names]

    def _note(self, coming: str) -> None:
        self.exchange.note({address: [*self._loaded, coming] for address in self.can})


async def _unload(server: Server, names: Sequence[str]) -> None:
    """Unload adapters; a server that was started anew does not know them any more, nor one that is gone."""
    for name in names:
        with suppress(TurnwiseError):
            await server.unload_adapter(name)
