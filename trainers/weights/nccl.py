"""vLLM's NCCL backend of native weight transfer: from the trainer's GPU into those of the servers.

**Not tested on GPUs.** The tests here run on a CPU, where NCCL does not exist. They compare the messages to the servers
with vLLM 0.32's own ``NCCLWeightTransferInitInfo`` and ``NCCLWeightTransferUpdateInfo``, and the order of the two
sides with a group in memory. The trainer's side is vLLM's ``PyNcclCommunicator`` over a ``StatelessProcessGroup``, so
the trainer's environment needs vLLM too. The canary checks this transport as it does every other.

The trainer is rank 0 of one group with every worker of every replica. Tensors are packed for servers from 0.28 on,
whose first phase agrees on it, and broadcast one by one for older ones. After servers came or went between two
transfers, all meet in a new group. A server that dies *within* a transfer still ends the run: the others wait for it.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from ...errors import InfrastructureError, UsageError
from ...inference.serving.server import Capabilities
from .packing import MEGABYTES, described, packs, sent_as

T = TypeVar("T")

PACKED_SINCE = (0, 28)
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
        port: port on which all join; each later group, after servers came or went, uses the next one.
        device: device of the learner.
        gpus: number of workers of each server; ``None`` for what the server reports.
        dtype: type in which floating-point weights are sent.
        megabytes: size of a packed broadcast.
        meet: function that creates the group (default: vLLM's).
    """

    name = "nccl"
    shared = False

    def __init__(
        self,
        host: str,
        port: int,
        *,
        device: torch.device,
        gpus: int | None = None,
        dtype: torch.dtype | None = None,
        megabytes: int = MEGABYTES,
        meet: Callable[[str, int, int, torch.device], Group] | None = None,
    ) -> None:
        self.host, self.port, self.device = host, port, device
        self.gpus = gpus
        self.dtype, self.bytes = dtype, megabytes * 1_000_000
        self._meet = meet or _meet
        self._group: Group | None = None
        self._offsets: list[int] = []
        self._size = self._groups = 0
        self._packed = False

    def meet(self, servers: Sequence[Capabilities]) -> None:
        """Give every worker of every server its rank, after the trainer's."""
        counts = [self.gpus or server.workers for server in servers]
        *self._offsets, self._size = itertools.accumulate(counts, initial=1)
        self._packed = all(packs_tensors(server.version) for server in servers)
        self._group = None
        self._groups += 1

    def init_info(self, replica: int) -> Mapping[str, Any]:
        """Return address and ranks for a replica, whose workers have the ranks from ``rank_offset`` on."""
        packed = {"packed": True, "packed_buffer_size_bytes": self.bytes, "packed_num_buffers": 1}
        return {
            "master_address": self.host,
            "master_port": self.port + self._groups - 1,
            "rank_offset": self._offsets[replica],
            "world_size": self._size,
            **(packed if self._packed else {}),
        }

    async def join(self) -> None:
        """Join the group of the workers.

        Raises:
            InfrastructureError: the workers did not join.
        """
        port = self.port + self._groups - 1
        try:
            async with asyncio.timeout(JOINING):
                self._group = await _to_thread(lambda: self._meet(self.host, port, self._size, self.device))
        except TimeoutError:
            raise InfrastructureError(
                f"the servers' workers did not meet the trainer at {self.host}:{port} within {JOINING:.0f} s; is "
                "that address reachable from them, and is nccl.gpus what each server has?"
            ) from None

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Do nothing: memory goes to memory."""

    def updates(self, weights: Mapping[str, Tensor]) -> Iterator[Mapping[str, Any]]:
        """Yield names, types and shapes of the tensors, in order."""
        yield described(weights, self.dtype)

    async def stream(self, weights: Mapping[str, Tensor]) -> None:
        """Broadcast every tensor in the order of ``updates``, packed if the servers read packs."""
        await _to_thread(lambda: self._broadcast(weights))

    def done(self) -> None:
        """Do nothing: there is nothing to clean up."""

    def close(self) -> None:
        """Leave the group to the garbage collector: destroying it waits for workers that may be dead."""
        self._group = None

    def _broadcast(self, weights: Mapping[str, Tensor]) -> None:
        assert self._group is not None
        on_gpu = self.device.type == "cuda"
        with torch.cuda.device(self.device) if on_gpu else nullcontext():  # a thread begins on the first GPU
            if self._packed:
                for pack in packs(weights, self.dtype, self.bytes, over=True):
                    buffer = torch.empty(pack.size, dtype=torch.uint8, device=self.device)
                    self._group.broadcast(pack.fill(buffer), src=0)
            else:
                for value in weights.values():
                    sent = value.detach().to(self.device, sent_as(value, self.dtype))
                    self._group.broadcast(sent.contiguous(), src=0)
            if on_gpu:
                torch.cuda.synchronize(self.device)


def packs_tensors(version: str) -> bool:
    """Return whether a vLLM agrees on packed broadcasts in the first phase, as all do since 0.28.

    Args:
        version: its version, e.g. ``0.32.0+cpu``.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= PACKED_SINCE


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


def _meet(host: str, port: int, size: int, device: torch.device) -> Group:
    if device.type != "cuda":
        raise UsageError("server.nccl sends weights from GPU to GPU, and the trainer has none; leave nccl out")
    try:
        from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
        from vllm.distributed.utils import StatelessProcessGroup
    except ImportError as error:
        raise UsageError(
            f"server.nccl needs vLLM in the trainer's environment too ({error}); install it, or leave nccl out"
        ) from None
    with torch.cuda.device(device):
        group = StatelessProcessGroup.create(host=host, port=port, rank=0, world_size=size)
        return working(PyNcclCommunicator(group, device=torch.cuda.current_device()))


def working(made: Any) -> Group:
    """Return a communicator of vLLM, which disables itself silently where it finds no NCCL.

    Raises:
        UsageError: it sends nothing.
    """
    if getattr(made, "disabled", False):
        raise UsageError(
            "server.nccl: vLLM found no NCCL library in the trainer's environment, so nothing would be sent; set "
            "VLLM_NCCL_SO_PATH to libnccl.so.2, or leave nccl out"
        )
    group: Group = made
    return group
