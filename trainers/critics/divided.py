"""Reading by several processes: each reads a share of the parts, and all get the vectors of every sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from ..learning.parallel import ProcessGroup

T = TypeVar("T")


def divided(parts: Sequence[Sequence[T]], read: Callable[[Sequence[T]], Tensor], world: ProcessGroup) -> Tensor:
    """Return the vectors of all parts in order, ``[R, H]``; without gradient if there are several processes.

    Args:
        parts: parts of what is to be read, one forward pass each; R items in all.
        read: returns one vector per item of a part.
        world: the processes; all of them call this together, with the same parts.
    """
    if world.size == 1:
        return torch.cat([read(part) for part in parts])
    found_RH: Tensor | None = None
    for number, counts in world.shares(len(parts)):
        vectors = read(parts[number])
        if found_RH is None:
            found_RH = vectors.new_zeros(sum(map(len, parts)), vectors.shape[1])
        if counts:
            start = sum(map(len, parts[:number]))
            found_RH[start : start + len(parts[number])] = vectors
    assert found_RH is not None
    return world.all_reduce(found_RH)
