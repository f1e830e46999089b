"""Transfer of LoRA adapters through files: small, and the base model on the server never changes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch import Tensor

from ...errors import TurnwiseError, UsageError
from ...inference.serving.server import Pause, Sampler, adapter_host
from ..learning.lora import save_adapter
from .replicas import Replicas
from .shared_folder import SharedFolder
from .transfer import Changeable


class Adapter(Replicas):
    """Saves the adapters as peft does, under a new name each time, and makes requests name the newest.

    Under ``Pause.KEEP`` nothing pauses: a request continues with the adapter that it started with. That adapter is
    unloaded once no request uses it and the next one arrives, so a server has at most two of this run. A process that
    was killed leaves adapters on the servers; the next one of the run finds them in a note and unloads them.

    Args:
        policy: policy over replicas started with ``--enable-lora`` and runtime updating, on the model's base.
        exchange: folder that the servers see.
        model: model with adapters; only its structure is used.
        rank: rank of the adapters.
        base: source of the frozen part, for the files.
        mode: see ``Pause``.
        timeout: seconds that a server has for one call.
    """

    whole = False

    def __init__(
        self,
        policy: Changeable,
        exchange: SharedFolder,
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
        self._mark = f"turnwise-{secrets.token_hex(3)}"  # servers refuse a name twice, also one of an earlier process
        self._count = 0
        self._staged = ""
        self._loaded: list[str] = []

    @property
    def adapter(self) -> str | None:
        """Name of the newest adapter."""
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
        folder = await asyncio.to_thread(
            self.exchange.fill, name, lambda folder: save_adapter(self.model, weights, folder, base=self.base)
        )
        self._note(name)  # before sending: a later process may unload in vain, but never forgets an adapter
        self._staged = name
        await self.send_ahead(folder)

    async def pause(self) -> None:
        """See ``Transport``."""
        if self.mode is Pause.KEEP:
            await self.policy.drain()  # waits for requests of the version before the present one
            self._ready = await self.policy.refresh_health()
        else:
            await super().pause()
        await self._retire(self._loaded[:-1])

    async def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        name = self._staged
        self._loaded.append(name)
        try:
            await self.every(
                "load an adapter", lambda server: adapter_host(server).load_adapter(name, self.exchange.seen(name))
            )
        except TurnwiseError:
            self._loaded.remove(name)
            raise
        if all(can.control for can in self.can.values()):
            await self.forget()  # other caches are separate for each adapter's name, and no name is used twice

    @property
    def keeps(self) -> bool:
        """See ``Transport``."""
        return bool(self._loaded)

    async def refresh(self, server: Sampler, version: int) -> None:
        """Load the newest adapter, under which a server that restarted has nothing in its cache."""
        if not self.keeps:
            await super().refresh(server, version)  # raises
            return
        name = self._loaded[-1]

        async def load(each: Sampler) -> None:
            with suppress(TurnwiseError):  # an earlier try may have loaded it, and no name is loaded twice
                await adapter_host(each).unload_adapter(name)
            await adapter_host(each).load_adapter(name, self.exchange.seen(name))

        await self.each("load the present adapter", [server], load)

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
        """Unload adapters that are no longer in use, and remove their files."""
        if not names:
            return
        await self.each("unload an adapter", self.policy.live, lambda server: _unload(server, names))
        self.exchange.remove(*names)
        self._loaded = [name for name in self._loaded if name not in names]

    def _note(self, coming: str) -> None:
        self.exchange.note({address: [*self._loaded, coming] for address in self.can})


async def _unload(server: Sampler, names: Sequence[str]) -> None:
    """Unload adapters; a server that was restarted or is down no longer has them."""
    for name in names:
        with suppress(TurnwiseError):
            await adapter_host(server).unload_adapter(name)
