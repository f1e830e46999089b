"""Clipped tokens of a batch: found in each update, counted over the updates of a step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from .loss import Diagnostics
from .rows import Rows


@dataclass(frozen=True, slots=True)
class Clips:
    """The tokens of one update, and on which side the loss clipped them.

    Args:
        row: index of each token's row in the batch, ``[N]``.
        at: index of each token in its row, ``[N]``.
        low: whether the lower bound of the ratio decided the loss, ``[N]``.
        high: whether its upper bound or ``dual_clip`` decided the loss, ``[N]``.
    """

    row: Tensor
    at: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, seen: Diagnostics) -> Self:
        """Take the tokens from the measurements of an update, which need a ``place``."""
        assert seen.place is not None
        high_N, dual_N = seen.clipped_high, seen.means.get("clip_dual")
        high_N = high_N if dual_N is None else high_N | dual_N
        row_N, at_N = seen.place.cpu().unbind(1)
        return cls(row_N, at_N, seen.clipped_low.cpu(), high_N.cpu())


def placed(seen: Diagnostics, part: Rows) -> Diagnostics:
    """Return the measurements of a micro-batch of whole rows with the places of its tokens."""
    return replace(seen, place=torch.stack([part.row, part.positions()], 1)[part.mask])


class ClipCounts:
    """In how many updates of a step each token of a batch took part, and in how many the loss clipped it.

    Args:
        rows: all T tokens of the batch, whose rows are counted from 0.
    """

    def __init__(self, rows: Rows) -> None:
        _, sizes_R = torch.unique_consecutive(rows.row, return_counts=True)
        self._first_R = torch.cumsum(sizes_R, 0) - sizes_R
        self.updates = torch.zeros(len(rows), dtype=torch.int16)
        """Number of updates in which a token took part, ``[T]``."""
        self.low = torch.zeros_like(self.updates)
        """Number of updates in which the lower bound of the ratio decided the loss of a token, ``[T]``."""
        self.high = torch.zeros_like(self.updates)
        """Number of updates in which the upper bound or ``dual_clip`` decided the loss of a token, ``[T]``."""

    def add(self, clips: Clips | None) -> None:
        """Count one update; ``None`` if it was refused or had no tokens."""
        if clips is None:
            return
        place_N = self._first_R[clips.row] + clips.at
        self.updates[place_N] += 1
        self.low[place_N] += clips.low.short()
        self.high[place_N] += clips.high.short()
