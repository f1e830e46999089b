"""A key-value cache that rows can join and leave, with space reserved for future tokens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from ..errors import ModelError

SPARE = 32
"""Number of tokens to reserve space for at a time."""


class PreallocatedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values [rows, heads, time, head_dim] of one layer, with reserved space for new tokens.

    ``DynamicLayer`` copies the whole cache for every token, which costs more than a small model's own arithmetic.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self.buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append the states of new positions, and return the states of all positions."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states, value_states  # many rows end with this pass: reserve nothing yet
            return key_states, value_states
        assert self.keys is not None
        assert self.values is not None
        start, end = self.keys.shape[2], self.keys.shape[2] + key_states.shape[2]
        if self.buffers is None or end > self.buffers[0].shape[2]:
            more = (0, 0, 0, end - start + SPARE)
            self.buffers = functional.pad(self.keys, more), functional.pad(self.values, more)
        keys, values = self.buffers
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        self.keys, self.values = keys[:, :, :end], values[:, :, :end]
        return self.keys, self.values


def cache_argument(model: Any, cache: Cache | None) -> dict[str, Cache | None]:
    """Return a cache as the keyword argument that the forward pass of a model has for it.

    Since transformers 5.24 it is ``cache``; earlier versions, and models that bring their own code, have
    ``past_key_values``.
    """
    forward = model.get_base_model().forward if hasattr(model, "get_base_model") else model.forward
    return {_cache_name(getattr(forward, "__func__", forward)): cache}


@lru_cache
def _cache_name(forward: Callable[..., Any]) -> str:
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"


def empty_cache() -> Cache:
    """Return a cache without rows; the first forward pass adds its layers."""
    return Cache(layer_class_to_replicate=PreallocatedLayer)


def joined(parts: Sequence[tuple[Cache, list[int]]], width: int) -> Cache:
    """Combine chosen rows of several caches, left-padded or cut on the left to ``width`` positions."""
    layers: list[Any] = []
    for number in range(len(parts[0][0].layers)):
        whole: list[Any] = [(cache.layers[number], chosen) for cache, chosen in parts]
        layer = PreallocatedLayer()
        keys = _stacked([(old.keys, chosen) for old, chosen in whole], width)
        values = _stacked([(old.values, chosen) for old, chosen in whole], width)
        layer.lazy_initialization(keys, values)
        layer.buffers = keys, values
        layer.keys, layer.values = keys[:, :, :width], values[:, :, :width]
        layers.append(layer)
    return Cache(layers=layers)


def refuse_other_caches(model: Any) -> None:
    """Check that rows of the model's cache can be cut and joined.

    Raises:
        ModelError: a layer does not have full attention.
    """
    kinds = {type(layer).__name__ for layer in DynamicCache(config=model.config).layers} - {"DynamicLayer"}
    if kinds:
        raise ModelError(
            f"{type(model).__name__} caches with {', '.join(sorted(kinds))}, but continuous batching needs full "
            "attention in every layer; serve this model with vLLM"
        )


def _stacked(parts: Sequence[tuple[Tensor, list[int]]], width: int) -> Tensor:
    """Stack rows, with zeros as padding: a mask does not suppress NaN, which uninitialized memory may hold."""
    _, heads, _, size = parts[0][0].shape
    room = parts[0][0].new_zeros(sum(len(chosen) for _, chosen in parts), heads, width + SPARE, size)
    at = 0
    for states, chosen in parts:
        have = states.shape[2]
        take = min(width, have)
        index = torch.tensor(chosen, device=states.device)
        room[at : at + len(chosen), :, width - take : width] = states[:, :, have - take :].index_select(0, index)
        at += len(chosen)
    return room
