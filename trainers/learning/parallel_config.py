"""Settings of the processes that ``torchrun`` starts: how they share a model, and how long they wait for each other."""

from __future__ import annotations

from typing import Literal, Self

import pydantic

from ...config import Config
from ...errors import UsageError


class ParallelConfig(Config):
    """How the processes of ``torchrun`` share a model (FSDP2). Without ``torchrun``, no setting has an effect."""

    replicas: int = pydantic.Field(default=1, ge=1)
    """Number of complete copies of the model. With more than 1, each copy is sharded over processes / replicas
    neighbors, such as the GPUs of one machine, and only gradients travel between copies (HSDP)."""
    reshard: bool = True
    """Free the gathered weights of a block after its forward pass and gather them again for the backward pass:
    less memory, half as much again to send. With ``false``, each process keeps all weights from forward to backward."""
    mixed_precision: Literal["bfloat16"] | None = None
    """Precision in which blocks are gathered and computed: half the bytes to send and to keep. Weights, gradient sums
    and updates stay in 32 bits. Needs ``optimizer.autocast`` of the same precision, since the sampler and references
    are not sharded. Unlike autocast alone, it also rounds norms and the residual stream."""
    offload: bool = False
    """Keep weights, gradients and optimizer in the machine's own memory, and compute the update there: slow, and for
    models that would not fit otherwise. A block's weights are copied to the GPU while it computes."""
    timeout: float = pydantic.Field(default=10.0, gt=0)
    """Minutes that a process waits in a joint computation for one that does not answer, before the run ends. While
    process 0 plays, evaluates or writes, the others wait as long as it takes."""

    def check(self, processes: int, autocast: str | None, kind: str) -> Self:
        """Return the settings if they fit the run.

        Args:
            processes: number of processes of the run.
            autocast: ``optimizer.autocast``.
            kind: ``optimizer.kind``.

        Raises:
            UsageError: they do not fit.
        """
        if self.mixed_precision is not None and autocast != self.mixed_precision:
            raise UsageError(
                f"parallel.mixed_precision = {self.mixed_precision} computes in another precision than the sampler and "
                f"references of this run: set optimizer.autocast = {self.mixed_precision} too"
            )
        if processes == 1:
            if self.offload or self.replicas > 1:
                asked = "parallel.offload" if self.offload else f"parallel.replicas = {self.replicas}"
                raise UsageError(f"{asked} is for several processes; start the run with torchrun, or leave it out")
            return self
        if processes % self.replicas:
            raise UsageError(
                f"{processes} processes cannot hold {self.replicas} copies of the model in equal shards: "
                "parallel.replicas must divide the number of processes"
            )
        if kind == "adamw-8bit":
            raise UsageError(
                "optimizer.kind = adamw-8bit quantizes whole tensors and is for one process; several processes "
                "divide the 32-bit moments among them: use adamw-fused, or parallel.offload"
            )
        return self
