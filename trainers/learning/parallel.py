"""Data-parallel learning from one batch: each process computes a share of the micro-batches on a sharded model.

Start it with ``torchrun --nproc-per-node N``. FSDP2 shards the model, and gradients are *summed* over processes. All
denominators are counted over the whole batch beforehand, so loss and gradient equal those of one process.
"""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from ...errors import InfrastructureError, UsageError
from .broadcast import broadcast_value
from .parallel_config import ParallelConfig
from .rows import Layout, Rows, Unit
from .sharding import shard_blocks

T = TypeVar("T")
PATIENCE = timedelta(days=2)
"""How long processes wait for the main one while it plays, evaluates or writes; they are idle then."""
FAREWELL = timedelta(minutes=1)
"""How long a process that has ended well waits for the others, of which the main one still closes servers and files."""
LOST = re.compile(r"timed? ?out|connection|closed by peer|reset by peer|nccl|gloo", re.IGNORECASE)
"""Text of torch's errors about another process that ended or does not answer."""


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
        patient: group on which processes wait for the main one; ``None`` is the group of computations.
    """

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    patient: Any = None

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

    def new_group(self) -> Any:
        """Return another group of the same processes, for calls beside the computation; ``None`` for one process."""
        return dist.new_group(backend="gloo", timeout=PATIENCE) if self.size > 1 else None

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
            return broadcast_value(word, is_main=self.is_main, group=self.patient)  # type: ignore[no-any-return]
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
def process_group(device: str = "cpu", *, timeout: float = ParallelConfig().timeout) -> Iterator[ProcessGroup]:
    """Join the processes that ``torchrun`` started until the block ends; without it, this one alone.

    Args:
        device: ``"cpu"`` (gloo), or ``"cuda"`` (nccl), of which each process takes the GPU of its local rank.
        timeout: minutes to wait for another process in a joint computation.

    Raises:
        UsageError: the device is the same for all processes.
        InfrastructureError: another process ended, or did not answer in time.
    """
    size = processes()
    if size == 1:
        yield ProcessGroup(device=device)
        return
    if ":" in device:
        raise UsageError(f"device {device} is one GPU for {size} processes; say device=cuda, and each takes its own")
    backend = "gloo"
    if device != "cpu":
        device, backend = f"cuda:{os.environ['LOCAL_RANK']}", "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(minutes=timeout))
    patient = dist.new_group(backend="gloo", timeout=PATIENCE)
    # Ctrl-C, or torchrun's signal for it, reaches every process. They stop together, when the main process says so.
    leads = dist.get_rank() == 0
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, (lambda *_: signal.raise_signal(signal.SIGINT)) if leads else signal.SIG_IGN)
    signal.signal(signal.SIGINT, before[signal.SIGINT] if leads else signal.SIG_IGN)
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), device, patient)
    except RuntimeError as error:
        if (lost := _lost(error, timeout)) is None:
            raise
        raise lost from error
    else:
        # A run that had ended well was once aborted as it left torch ("terminate called without an active exception"):
        # perhaps one process closed its connections while another still read the last broadcast. So they leave
        # together. After an error no process waits, since the others may never come. This barrier has a timeout of its
        # own, and fails at once if another process has ended; that of dist.barrier() is the group's, which is days.
        with suppress(RuntimeError):
            dist.monitored_barrier(patient, timeout=FAREWELL)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        dist.destroy_process_group()


def _lost(error: RuntimeError, timeout: float) -> InfrastructureError | None:
    """Return what torch's error about another process means to a user; ``None`` for an error of another kind."""
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or not LOST.search(text):
        return None
    if re.search(r"timed? ?out", text, re.IGNORECASE):
        return InfrastructureError(
            f"another process of this run has not answered for {timeout:g} minutes (parallel.timeout), so the run ends "
            "here; continue it with --resume"
        )
    return InfrastructureError(
        "another process of this run has ended; read its output for the reason, and continue with --resume"
    )


def shard(model: Any, among: ProcessGroup, config: ParallelConfig | None = None) -> Any:
    """Shard a model in place over the processes, block by block; a single process leaves it unchanged.

    Where a process has a model without data (on the meta device), it gets that of the main process, one block at a
    time, so that no other process ever holds the whole model. If the main process has no data either, weights are left
    uninitialized, for a checkpoint to fill.

    Args:
        model: model with the same weights in every process, or with weights in the main process only.
        among: the processes.
        config: how they share it (default: the plain settings).
    """
    if among.size == 1:
        return model
    shapes = [(name, str(each.dtype), tuple(each.shape)) for name, each in model.named_parameters()]
    found = among.all_gather((any(each.is_meta for each in model.parameters()), shapes))
    if any(others != shapes for _, others in found):
        raise InfrastructureError("processes of this run have loaded different models; do all see the same files?")
    empty = [without for without, _ in found]
    shard_blocks(model, config or ParallelConfig(), size=among.size, device=among.device, empty=empty)
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


def gather_on_main(state: Mapping[str, Tensor], among: ProcessGroup) -> dict[str, Tensor]:
    """Return sharded tensors gathered on the CPU of the main process, and nothing in the others.

    One tensor after the other is gathered, so no process but the main one holds more than one of them. All processes
    have to call it together.

    Args:
        state: tensors by name, the same names in every process.
        among: the processes.
    """
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        if isinstance(value, DTensor):
            value = cast(DTensor, value.to(among.device)).full_tensor()  # offloaded shards are on the CPU
        if among.is_main:
            found[name] = value.cpu() if among.size > 1 else value
    return found


def sharded_like(state: Any, like: Tensor) -> Any:
    """Return an unsharded optimizer state with every tensor of the parameter's shape sharded as the parameter is."""
    if not isinstance(like, DTensor):
        return state
    return {
        name: distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
        if isinstance(value, Tensor) and not isinstance(value, DTensor) and value.shape == like.shape
        else value
        for name, value in state.items()
    }
