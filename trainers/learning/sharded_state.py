"""Restore unsharded states into sharded modules and optimizers, so that any number of processes may continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor

from .parallel import sharded_like


def reshard(module: nn.Module) -> None:
    """Free what sharded modules gathered for a forward pass, so that ``parameters()`` are those that learn."""
    for each in module.modules():
        if isinstance(each, FSDPModule):
            each.reshard()


def load_unsharded(module: nn.Module, state: Mapping[str, Any]) -> None:
    """Load a state dictionary of whole tensors into a module, whose own tensors may be sharded.

    Args:
        module: module, sharded or not.
        state: its state as ``unsharded(module.state_dict())``.
    """
    own = module.state_dict()
    module.load_state_dict({name: _as(value, own.get(name)) for name, value in state.items()})


def optimizer_state(state: Mapping[str, Any], parameters: Sequence[Tensor]) -> dict[str, Any]:
    """Return an unsharded optimizer state with the moments of each parameter sharded as the parameter is.

    Args:
        state: ``unsharded(optimizer.state_dict())``.
        parameters: the optimizer's parameters, in order.
    """
    moments = {index: sharded_like(each, parameters[index]) for index, each in state["state"].items()}
    return {**state, "state": moments}


def _as(value: Any, like: Any) -> Any:
    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
