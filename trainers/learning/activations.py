"""Activation checkpointing: a block's inside is computed again for its gradient instead of being kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from ...errors import UsageError


def recomputable(model: Any) -> bool:
    """Whether the model has layers of its own to recompute."""
    return any(isinstance(each, GradientCheckpointingLayer) for each in model.modules())


@contextmanager
def recomputed(model: Any) -> Iterator[None]:
    """Within the block, the model's layers keep only their input for the backward pass.

    transformers' own switch works only in training mode, which would turn dropout on with it (traps.md, trap
    23). Here each layer's ``forward`` is replaced while gradients are computed, and put back: a copy of the model that
    is made at any other time is an ordinary one.

    Raises:
        UsageError: the model has no layers of transformers.
    """
    layers: list[torch.nn.Module] = [each for each in model.modules() if isinstance(each, GradientCheckpointingLayer)]
    if not layers:
        raise UsageError(f"{type(model).__name__} has no transformer layers to recompute; leave recompute off")
    for layer in layers:
        # With nothing random inside, there is no generator to put back for the second time.
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
