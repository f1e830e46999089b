"""Broadcast a value from process 0: large tensors go straight into their memory, and token ids as plain numbers."""

from __future__ import annotations

import pickle
from array import array
from io import BytesIO
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

LARGE = 1 << 16
"""Bytes from which a tensor is sent by itself."""
LONG = 32
"""Length from which a tuple of numbers is sent as an array: a pickled number needs several bytes and an object."""


class _Writer(pickle.Pickler):
    """Pickles a value without its large tensors, which it collects, each once."""

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self._places: dict[int, tuple[int, Tensor]] = {}  # with the tensor, so that no other gets its id

    def persistent_id(self, value: Any) -> tuple[str, Any] | None:
        if type(value) is Tensor and value.layout is torch.strided and value.nbytes >= LARGE:
            if id(value) not in self._places:
                self._places[id(value)] = len(self.tensors), value
                self.tensors.append(value.detach().cpu().contiguous())
            return "tensor", self._places[id(value)][0]
        if type(value) is tuple and len(value) >= LONG:
            return _numbers(value)
        return None


class _Reader(pickle.Unpickler):
    """Reads what ``_Writer`` wrote, with the tensors that were received."""

    def __init__(self, file: BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, pid: tuple[str, Any]) -> Any:
        kind, value = pid
        return self._tensors[value] if kind == "tensor" else tuple(array(kind, value))


def broadcast_value(value: Any, *, is_main: bool, group: Any = None) -> Any:
    """Return the value of process 0 in every process; all of them have to call it together.

    Large tensors arrive on the CPU. Each process needs their memory once, and no other copy of them.

    Args:
        value: any value that can be pickled; ignored in other processes than the main one.
        is_main: whether this is process 0.
        group: processes that call it, and how; ``None`` for the default group.
    """
    said: list[Any] = [None, None]
    tensors: list[Tensor] = []
    if is_main:
        writer = _Writer(file := BytesIO())
        writer.dump(value)
        tensors = writer.tensors
        said = [file.getvalue(), [(tensor.shape, tensor.dtype) for tensor in tensors]]
    dist.broadcast_object_list(said, src=0, group=group)
    if not is_main:
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in said[1]]
    for tensor in tensors:
        dist.broadcast(tensor.view(-1).view(torch.uint8), src=0, group=group)
    return value if is_main else _Reader(BytesIO(said[0]), tensors).load()


def _numbers(value: tuple[Any, ...]) -> tuple[str, bytes] | None:
    """Return a tuple of integers, or of floats, as the bytes of an array; ``None`` for any other."""
    kinds = set(map(type, value))
    try:
        if kinds == {int}:
            return "q", array("q", value).tobytes()
        if kinds == {float}:
            return "d", array("d", value).tobytes()
    except OverflowError:
        return None
    return None
