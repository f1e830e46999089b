"""How FSDP2 shards a model: the mesh of processes, precision and place of the shards, and models without data."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from .parallel_config import ParallelConfig


def shard_blocks(model: Any, config: ParallelConfig, *, size: int, device: str, empty: list[bool]) -> None:
    """Shard a model in place, block by block, and the rest of it last.

    Args:
        model: model to shard.
        config: how processes share it.
        size: number of processes.
        device: device of this process's shard.
        empty: whether each process, by rank, has a model without data.
    """
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    kind = torch.device(device).type
    mesh = _mesh(config, kind, size)
    policy = MixedPrecisionPolicy()
    if config.mixed_precision is not None:
        policy = MixedPrecisionPolicy(getattr(torch, config.mixed_precision), reduce_dtype=torch.float32)
    offload = CPUOffloadPolicy(pin_memory=kind == "cuda") if config.offload else OffloadPolicy()
    blocks = [block for module in model.modules() if isinstance(module, torch.nn.ModuleList) for block in module]
    for module in [*blocks, model]:
        if any(empty):
            materialize(module, device, filled=not empty[0])
        reshard = config.reshard if module is not model else None
        fully_shard(module, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy, offload_policy=offload)
        module.set_gradient_divide_factor(1.0)  # a sum: FSDP's own default is the mean
        module.set_force_sum_reduction_for_comms(True)  # and no pre-scaling, which gloo cannot do


def _mesh(config: ParallelConfig, kind: str, size: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    if config.replicas == 1:
        return init_device_mesh(kind, (size,))
    mesh = init_device_mesh(kind, (config.replicas, size // config.replicas), mesh_dim_names=("replicas", "shards"))
    for group in mesh.get_all_groups():  # they would have torch's own time limit
        dist.distributed_c10d._set_pg_timeout(timedelta(minutes=config.timeout), group)
    return mesh


def materialize(module: torch.nn.Module, device: str, *, filled: bool = False) -> None:
    """Put what is not sharded yet of a module on a device, in place; without data its memory is uninitialized.

    Args:
        module: module whose parameters may be on the meta device.
        device: device of this process.
        filled: whether to take the data of process 0. All processes have to call it together then.
    """
    made: dict[Tensor, Tensor] = {}  # weights that modules share stay shared
    for inner in module.modules():
        for held in (inner._parameters, inner._buffers):
            for name, tensor in held.items():
                if tensor is None or isinstance(tensor, DTensor):  # of a block that is sharded already
                    continue
                if tensor not in made:
                    made[tensor] = _received(tensor, device, filled)
                held[name] = made[tensor]  # type: ignore[assignment]


def _received(tensor: Tensor, device: str, filled: bool) -> Tensor:
    there = torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.detach().to(device)
    if filled:
        dist.broadcast(there, src=0)
    return torch.nn.Parameter(there, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else there
