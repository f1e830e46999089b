"""Data-parallel learning from one batch: each process computes a share of the micro-batches on a sharded model.

Start it with ``torchrun --nproc-per-node N``. FSDP2 shards the model, and gradients are *summed* over processes. All
denominators are counted over the whole batch beforehand, so loss and gradient equal those of one process.
"""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from ...errors import InfrastructureError, UsageError
from .broadcast import broadcast_value
from .rows import Layout, Rows, Unit

T = TypeVar("T")
PATIENCE = timedelta(days=2)
"""How long a process waits for another: while one collects episodes or evaluates, the others are idle."""


@dataclass(frozen=True, slots=True)
class Part:
    """A micro-batch that a process computes.

    Args:
        rows: rows of the micro-batch.
        place_T: indices of its tokens among those of the batch.
        counts: false where a process has no share left and computes only to keep step with the others.
    """

    rows: Rows
    place_T: Tensor
    counts: bool


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes that learn together; by default there is one, at no cost.

    Args:
        rank: rank of this process; 0 is the main process.
        size: number of processes.
        device: device of this process's shard.
    """

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    @property
    def is_main(self) -> bool:
        """Whether this process plays, evaluates and writes."""
        return self.rank == 0

    def parts(self, rows: Rows, budget: int, *, whole: Unit = "row", layout: Layout = "padded") -> Iterator[Part]:
        """Yield this process's micro-batches of ``rows``: as many as every other has, since a sharded pass is joint.

        Args:
            rows: the batch, the same in every process.
            budget: tokens in one pass; fewer where that gives every process its share.
            whole: unit that must not be divided.
            layout: layout of the passes.
        """
        parts = rows.numbered_microbatches(self.fair(budget, len(rows)), whole=whole, layout=layout)
        for number, counts in self.shares(len(parts)):
            part, place_T = parts[number]
            yield Part(part, place_T, counts)

    def all_reduce(self, share: Tensor) -> Tensor:
        """Return the sum over processes of a tensor; the same number everywhere, to the last bit."""
        if self.size > 1:
            dist.all_reduce(share)
        return share

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Sum the gradients of parameters that every process has whole; sharded ones have been summed already.

        A gradient that is missing counts as zeros.
        """
        if self.size == 1:
            return
        whole = [parameter for parameter in parameters if not isinstance(parameter, DTensor)]
        if not whole:
            return
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in whole]
        summed = self.all_reduce(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        for parameter, gradient in zip(whole, torch.split(summed, [each.numel() for each in whole]), strict=True):
            parameter.grad = gradient.view_as(parameter)

    def claim_thread(self) -> None:
        """Let this thread compute on the process's GPU: the current device is one of a thread."""
        if self.device.startswith("cuda:"):
            torch.cuda.set_device(self.device)

    def all_gather(self, mine: T) -> list[T]:
        """Return the values of all processes, by rank, with tensors on this process's device."""
        if self.size == 1:
            return [mine]
        buffer = io.BytesIO()
        torch.save(mine, buffer)
        found: list[bytes] = [b""] * self.size
        dist.all_gather_object(found, buffer.getvalue())
        return [torch.load(io.BytesIO(data), map_location=self.device, weights_only=False) for data in found]

    def broadcast(self, word: T | None = None) -> T:
        """Return the value of process 0 in every process; the ``word`` of the others is ignored."""
        if self.size == 1:
            return word  # type: ignore[return-value]
        try:
            return broadcast_value(word, is_main=self.is_main)  # type: ignore[no-any-return]
        except RuntimeError as error:
            raise InfrastructureError(
                "another process of this run has ended; read its output for the reason"
            ) from error

    def shares(self, parts: int) -> Iterator[tuple[int, bool]]:
        """Yield the indices of this process's parts: as many as every other has, since a sharded pass is joint.

        Args:
            parts: number of parts in all.

        Yields:
            Index of a part, and whether it counts. It does not where no part is left: the process then computes one
            only to keep step with the others.
        """
        for first in range(0, parts, self.size):
            mine = first + self.rank
            yield (mine, True) if mine < parts else (0, False)

    def fair(self, budget: int, tokens: int) -> int:
        """Return the tokens of one pass: at most ``budget``, and fewer where that gives every process its share."""
        return budget if self.size == 1 else max(1, min(budget, -(-tokens // self.size)))


ALONE = ProcessGroup()


def processes() -> int:
    """Return the number of processes that ``torchrun`` started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def process_group(device: str = "cpu") -> Iterator[ProcessGroup]:
    """Join the processes that ``torchrun`` started until the block ends; without it, this one alone.

    Args:
        device: ``"cpu"`` (gloo), or ``"cuda"`` (nccl), of which each process takes the GPU of its local rank.

    Raises:
        UsageError: the device is the same for all processes.
    """
    size = processes()
    if size == 1:
        yield ProcessGroup(device=device)
        return
    if ":" in device:
        raise UsageError(f"device {device} is one GPU for {size} processes; say device=cuda, and each takes its own")
    if device == "cpu":
        dist.init_process_group("gloo", timeout=PATIENCE)
    else:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=PATIENCE)
    # Ctrl-C, or torchrun's signal for it, reaches every process. They stop together, when the main process says so.
    leads = dist.get_rank() == 0
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, (lambda *_: signal.raise_signal(signal.SIGINT)) if leads else signal.SIG_IGN)
    signal.signal(signal.SIGINT, before[signal.SIGINT] if leads else signal.SIG_IGN)
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), device)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        dist.destroy_process_group()


def shard(model: Any, among: ProcessGroup) -> Any:
    """Shard a model in place over the processes, block by block; a single process leaves it unchanged.

    Args:
        model: model with the same weights in every process.
        among: the processes.
    """
    if among.size == 1:
        return model
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(torch.device(among.device).type, (among.size,))
    blocks = [block for module in model.modules() if isinstance(module, torch.nn.ModuleList) for block in module]
    for module in [*blocks, model]:
        fully_shard(module, mesh=mesh)
        module.set_gradient_divide_factor(1.0)  # a sum: FSDP's own default is the mean
        module.set_force_sum_reduction_for_comms(True)  # and no pre-scaling, which gloo cannot do
    return model


def unsharded(state: Any) -> Any:
    """Return a nested state with every sharded tensor gathered on the CPU. All processes have to call it together."""
    if isinstance(state, DTensor):
        return state.full_tensor().cpu()
    if isinstance(state, Mapping):
        return {name: unsharded(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(unsharded(value) for value in state)
    return state


def sharded_like(state: Any, like: Tensor) -> Any:
    """Return an unsharded optimizer state with every tensor of the parameter's shape sharded as the parameter is."""
    if not isinstance(like, DTensor):
        return state
    return {
        name: distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
        if isinstance(value, Tensor) and value.shape == like.shape
        else value
        for name, value in state.items()
    }
