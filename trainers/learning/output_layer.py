"""A model's output layer: whether something else may stand in for it during a forward pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

_plain: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
MARKS = (1 / 3, -1e-3, 7.7)
"""Numbers that no rounding to 16 bits leaves as they are."""


def output_layer(model: Any, *, least: int = 0) -> nn.Linear | None:
    """Return the model's output layer if it is a plain one, whose output is the logits; otherwise ``None``.

    Models that cap or scale their logits, whose output layer has adapters or compressed weights, or that have none are
    not plain. One small forward pass with marks instead of the layer's output tells, the first time.

    Args:
        model: a causal language model.
        least: least size of the vocabulary.
    """
    find = getattr(model, "get_output_embeddings", None)
    layer = find() if find is not None else None
    if not isinstance(layer, nn.Linear) or not layer.weight.is_floating_point() or layer.out_features < least:
        return None
    if model not in _plain:
        _plain[model] = _leaves_marks(model, layer)
    return layer if _plain[model] else None


@contextmanager
def replaced(layer: nn.Linear, stand_in: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Compute something else in place of a layer within the block; hooks of the layer and of sharding stay."""
    layer.forward = stand_in  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del layer.forward


@torch.no_grad()
def _leaves_marks(model: Any, layer: nn.Linear) -> bool:
    """Return whether the model gives out unchanged what stands in for the output of its last layer."""
    device = next(model.parameters()).device
    marks = torch.tensor(MARKS, device=device).expand(1, 1, -1).contiguous()
    # A cache would be a new object for every layer, and compiled layers would be compiled again for each.
    uncached = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    with replaced(layer, lambda hidden: marks):
        try:
            found = model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device), **uncached).logits
        except (RuntimeError, ValueError, IndexError):
            return False  # it does more with its logits than to return them
    return found.shape == marks.shape and torch.equal(found, marks)
