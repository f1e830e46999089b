"""vLLM's NCCL backend of native weight transfer: from the trainer's GPU into those of the servers.

**Not tested on GPUs.** The tests here run on a CPU, where NCCL does not exist. They compare the messages to the servers
with vLLM 0.32's own ``NCCLWeightTransferInitInfo`` and ``NCCLWeightTransferUpdateInfo``, and the order of the two
sides with a group in memory. The trainer's side is vLLM's ``PyNcclCommunicator`` over a ``StatelessProcessGroup``, so
the trainer's environment needs vLLM too. The canary checks this transport as it does every other.

The trainer is rank 0 of one group with every worker of every replica. Each tensor is broadcast by itself (not packed),
which is the only form that all releases with the four phases have in common.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from ...errors import InfrastructureError, UsageError

T = TypeVar("T")

JOINING = 300.0
"""Seconds in which all have to join; NCCL itself waits forever."""


class Group(Protocol):
    """The group of the trainer and all workers."""

    def broadcast(self, tensor: Tensor, src: int) -> None:
        """Send a tensor from rank ``src`` to all others."""
        ...


class Nccl:
    """The trainer's side of the NCCL backend.

    Args:
        host: address of this machine, as the servers see it.
        port: port on which all join.
        replicas: number of servers.
        gpus: number of workers of each server.
        dtype: type in which floating-point weights are sent.
        meet: function that creates the group (default: vLLM's).
    """

    name = "nccl"
    shared = False

    def __init__(
        self,
        host: str,
        port: int,
        *,
        replicas: int,
        gpus: int = 1,
        dtype: torch.dtype | None = None,
        meet: Callable[[str, int, int], Group] | None = None,
    ) -> None:
        self.host, self.port = host, port
        self.gpus = gpus
        self.size = 1 + replicas * gpus
        self.dtype = dtype
        self._meet = meet or _meet
        self._group: Group | None = None

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """Return address and ranks for a replica, whose workers have the ranks from ``rank_offset`` on."""
        return {
            "master_address": self.host,
            "master_port": self.port,
            "rank_offset": 1 + replica * self.gpus,
            "world_size": self.size,
        }

    async def join(self) -> None:
        """Join the group of the workers.

        Raises:
            InfrastructureError: the workers did not join.
        """
        try:
            async with asyncio.timeout(JOINING):
                self._group = await _to_thread(lambda: self._meet(self.host, self.port, self.size))
        except TimeoutError:
            raise InfrastructureError(
                f"the servers' workers did not meet the trainer at {self.host}:{self.port} within {JOINING:.0f} s; is "
                "that address reachable from them, and is nccl.gpus what each server has?"
            ) from None

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Do nothing: memory goes to memory."""

    def update_info(self, weights: Mapping[str, Tensor]) -> Mapping[str, Any]:
        """Return names, types and shapes of the tensors, in order."""
        return {
            "names": list(weights),
            "dtype_names": [str(self._kind(value)).removeprefix("torch.") for value in weights.values()],
            "shapes": [list(value.shape) for value in weights.values()],
        }

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """Broadcast every tensor, in the order of ``update_info``."""
        await _to_thread(lambda: self._broadcast(weights))

    def done(self) -> None:
        """Do nothing: there is nothing to clean up."""

    def close(self) -> None:
        """Leave the group to the garbage collector: destroying it waits for workers that may be dead."""
        self._group = None

    def _broadcast(self, weights: Mapping[str, Tensor]) -> None:
        assert self._group is not None
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for value in weights.values():
            self._group.broadcast(value.detach().to(device, self._kind(value)).contiguous(), src=0)
        if device == "cuda":
            torch.cuda.synchronize()

    def _kind(self, value: Tensor) -> torch.dtype:
        return self.dtype if self.dtype is not None and value.is_floating_point() else value.dtype


async def _to_thread(call: Callable[[], T]) -> T:
    """Call a function that NCCL may never return from, in a thread that does not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = call()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=run, name="turnwise-nccl", daemon=True).start()
    return await done


def _meet(host: str, port: int, size: int) -> Group:
    if not torch.cuda.is_available():
        raise UsageError("server.nccl sends weights from GPU to GPU, and the trainer has none; leave nccl out")
    try:
        from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
        from vllm.distributed.utils import StatelessProcessGroup
    except ImportError as error:
        raise UsageError(
            f"server.nccl needs vLLM in the trainer's environment too ({error}); install it, or leave nccl out"
        ) from None
    group = StatelessProcessGroup.create(host=host, port=port, rank=0, world_size=size)
    made: Group = PyNcclCommunicator(group, device=torch.cuda.current_device())
    return made
