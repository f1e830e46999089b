"""Transfer of a full checkpoint through a folder, which every server can load."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from torch import Tensor

from ...errors import UsageError
from ...inference.serving.server import Pause, Sampler, weight_receiver
from .replicas import Replicas
from .shared_folder import SharedFolder
from .transfer import Changeable


class Reload(Replicas):
    """Writes all weights, and makes each replica load them as it did when it started.

    The newest checkpoint stays in the folder, since a server regards the folder as its model's from then on.

    Args:
        policy: policy over replicas that see the folder.
        exchange: folder of the checkpoints.
        mode: see ``Pause``.
        timeout: seconds that a server has to load.
    """

    def __init__(
        self, policy: Changeable, exchange: SharedFolder, *, mode: Pause = Pause.KEEP, timeout: float = 600.0
    ) -> None:
        super().__init__(policy, mode=mode, timeout=timeout)
        self.exchange = exchange
        self._count = 0
        self._staged = self._loaded = ""

    async def init(self) -> None:
        """See ``Transport``."""
        await super().init()
        for address, can in self.can.items():
            if not can.reload:
                raise UsageError(
                    f"server {address} cannot load a new checkpoint: start it with VLLM_SERVER_DEV_MODE=1, which "
                    "opens /collective_rpc"
                )

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        self._count += 1
        self._staged = f"v{version}-{self._count}"
        await self.send_ahead(await asyncio.to_thread(self.exchange.write, self._staged, weights))

    async def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See ``Transport``."""
        folder = self.exchange.seen(self._staged)
        await self.every("load a checkpoint", lambda server: weight_receiver(server).reload(folder))
        await self.forget()
        old, self._loaded = self._loaded, self._staged
        if old:
            self.exchange.remove(old)

    @property
    def keeps(self) -> bool:
        """See ``Transport``."""
        return bool(self._loaded)

    async def give(self, server: Sampler, version: int) -> None:
        """Have one server load the newest checkpoint."""
        await weight_receiver(server).reload(self.exchange.seen(self._loaded))

    async def close(self) -> None:
        """Do nothing: the folder stays, since the servers' model is in it."""
