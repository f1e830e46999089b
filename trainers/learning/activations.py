"""How a model's layers run while it is trained: recomputed for their gradient, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from ...errors import UsageError


def recomputable(model: Any) -> bool:
    """Whether the model has layers of its own to recompute, or to compile."""
    return any(isinstance(each, GradientCheckpointingLayer) for each in model.modules())


@contextmanager
def layers_as(model: Any, *, recompute: bool = False, compiled: bool = False) -> Iterator[None]:
    """Within the block, the model's layers run in another way; blocks within it change nothing.

    transformers' own switch for recomputation works only in training mode, which would turn dropout on with it
    (traps.md, trap 23). Here each layer's ``forward`` is replaced, and put back: a copy of the model that is made at
    any other time is an ordinary one, and a sampler that shares the model runs it as it is.

    Args:
        model: model with layers of transformers.
        recompute: keep only the input of each layer, and compute its inside again for the gradient.
        compiled: fuse what a layer computes between matrix products, by ``torch.compile``. The first call of each
            class of layers takes half a minute; other lengths, and other models of its shape, compile nothing.

    Raises:
        UsageError: the model has no layers of transformers.
    """
    layers: list[torch.nn.Module] = [each for each in model.modules() if isinstance(each, GradientCheckpointingLayer)]
    if not layers:
        act, setting = ("recompute", "recompute") if recompute else ("compile", "compiled")
        raise UsageError(f"{type(model).__name__} has no transformer layers to {act}; leave optimizer.{setting} off")
    if "forward" in vars(layers[0]):
        yield
        return
    for layer in layers:
        forward = partial(_compiled(type(layer).forward), layer) if compiled else layer.forward
        # With nothing random inside, there is no generator to put back for the second time.
        again = partial(checkpoint, forward, use_reentrant=False, preserve_rng_state=False)
        layer.forward = again if recompute else forward
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


@cache
def _compiled(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function of a class of layers, for inputs of any size."""
    found: Callable[..., Any] = torch.compile(forward, dynamic=True)
    return found
