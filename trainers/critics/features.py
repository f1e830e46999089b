"""Vectors of sequences that a frozen model has read, kept so that it reads each of them once."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b

import torch
from torch import Tensor

Ids = tuple[int, ...]


class Features:
    """A cache of vectors, which drops those that were used least recently.

    Processes that call it together, with the same sequences, hold the same vectors.

    Args:
        capacity: the most vectors.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.read = 0
        """Number of sequences that had to be read since the last call of ``metrics``."""
        self._vectors: OrderedDict[bytes, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    @torch.no_grad()
    def of(self, sequences: Sequence[Ids], read: Callable[[Sequence[Ids]], Tensor]) -> Tensor:
        """Return the vectors of B sequences, ``[B, H]``, without gradient, on the CPU.

        Args:
            sequences: sequences in any order; they may repeat.
            read: returns the vectors of sequences that are not known, one for each.
        """
        keys = [blake2b(array("q", ids).tobytes(), digest_size=16).digest() for ids in sequences]
        missing = {key: ids for key, ids in zip(keys, sequences, strict=True) if key not in self._vectors}
        if missing:
            self.read += len(missing)
            self._vectors.update(zip(missing, read(list(missing.values())).float().cpu().unbind(), strict=True))
        for key in keys:
            self._vectors.move_to_end(key)
        found = torch.stack([self._vectors[key] for key in keys])
        while len(self._vectors) > self.capacity:
            self._vectors.popitem(last=False)
        return found

    def metrics(self) -> dict[str, float]:
        """Return the number of sequences that were read since the last call."""
        read, self.read = self.read, 0
        return {"encoder_read": float(read)}
