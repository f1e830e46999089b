"""Tensors packed into buffers of bytes, as vLLM's own backends read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

MEGABYTES = 256
"""Size of a buffer; a layer of an 8B model has about 400 MB in 16 bits."""


@dataclass(slots=True)
class Pack:
    """Consecutive tensors that travel in one buffer.

    Args:
        tensors: tensors by name, in order.
        kinds: types in which they travel.
        sizes: bytes of each.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    kinds: list[torch.dtype] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(self.sizes)

    def fill(self, buffer: Tensor) -> Tensor:
        """Copy the tensors one after another into a buffer of bytes, and return the part of it that they take."""
        place = 0
        for tensor, kind, size in zip(self.tensors.values(), self.kinds, self.sizes, strict=True):
            buffer[place : place + size].copy_(tensor.detach().to(kind).contiguous().flatten().view(torch.uint8))
            place += size
        return buffer[:place]


def sent_as(tensor: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """Return the type in which a tensor travels: floating-point ones in ``dtype``, if it is given."""
    return dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype


def described(tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> dict[str, list[object]]:
    """Return names, types and shapes of tensors, as vLLM's backends ask for them."""
    return {
        "names": list(tensors),
        "dtype_names": [str(sent_as(value, dtype)).removeprefix("torch.") for value in tensors.values()],
        "shapes": [list(value.shape) for value in tensors.values()],
    }


def packs(weights: Mapping[str, Tensor], dtype: torch.dtype | None, limit: int, *, over: bool) -> Iterator[Pack]:
    """Yield the tensors in packs.

    Args:
        weights: tensors by name.
        dtype: type in which floating-point tensors travel; ``None`` for their own.
        limit: bytes of a pack.
        over: whether the tensor that exceeds the limit still belongs to the pack, as in vLLM's NCCL backend; otherwise
            it begins the next one, as in its IPC backend.
    """
    pack = Pack()
    for name, tensor in weights.items():
        kind = sent_as(tensor, dtype)
        size = tensor.numel() * kind.itemsize
        if not over and pack.tensors and pack.size + size > limit:
            yield pack
            pack = Pack()
        pack.tensors[name] = tensor
        pack.kinds.append(kind)
        pack.sizes.append(size)
        if over and pack.size > limit:
            yield pack
            pack = Pack()
    if pack.tensors:
        yield pack
