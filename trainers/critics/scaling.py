"""The units of value heads, which make returns of −70 as easy to learn as returns of 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..learning.groups import ROUNDING

SMALLEST = 1e-3
"""The smallest spread, in units of reward; without it, equal targets would make every error infinite."""


class TargetScale:
    """``V = center + spread · head``, where center and spread may follow the targets without changing a single value.

    PopArt (van Hasselt et al., arXiv 1602.07714, eq. 3 to 8): when the scale moves, the last layers are rewritten,
    ``w ← w σ/σ′`` and ``b ← (σ b + μ − μ′)/σ′``, so that their outputs are preserved exactly. Only the very first scale
    is adopted without that. Before the first targets there is nothing worth preserving, and every value becomes their
    mean at once.

    Args:
        heads: the last layers, whose outputs are in units of the scale.
        center: initial center, in units of reward.
        spread: initial spread, in units of reward.
        memory: share of the running moments that each ``follow`` keeps.
    """

    def __init__(
        self, heads: Iterable[nn.Linear], center: float = 0.0, spread: float = 1.0, *, memory: float = 0.8
    ) -> None:
        self.heads = tuple(heads)
        self.center, self.spread = center, spread
        self.memory = memory
        self._seen = self._first = self._second = 0.0

    @property
    def started(self) -> bool:
        """Whether it has followed any targets."""
        return self._seen > 0

    def value(self, output: Tensor) -> Tensor:
        """Convert a head's outputs to units of reward."""
        return self.center + self.spread * output

    def inside(self, value: Tensor) -> Tensor:
        """Convert values, or targets, to units of the scale."""
        return (value - self.center) / self.spread

    @torch.no_grad()
    def follow(self, target_N: Tensor, weight_N: Tensor) -> None:
        """Let the running mean and deviation follow these targets, without changing any value.

        Args:
            target_N: targets in units of reward, ``[N]``.
            weight_N: weight of each target, ``[N]``.
        """
        share_N = weight_N.double() / weight_N.double().sum()
        target_N = target_N.double()
        started, keep = self.started, self.memory
        self._seen = keep * self._seen + (1 - keep)
        self._first = keep * self._first + (1 - keep) * float((share_N * target_N).sum())
        self._second = keep * self._second + (1 - keep) * float((share_N * target_N.square()).sum())
        center = self._first / self._seen
        spread = max(math.sqrt(max(self._second / self._seen - center**2, 0.0)), SMALLEST)
        for head in self.heads if started else ():
            head.weight.mul_(self.spread / spread)
            head.bias.mul_(self.spread).add_(self.center - center).div_(spread)
        self.center, self.spread = center, spread

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and its running moments; the heads belong to the state of their owner."""
        moments = {"seen": self._seen, "first": self._first, "second": self._second}
        return {"centre": self.center, "spread": self.spread, **moments}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.center, self.spread = float(state["centre"]), float(state["spread"])
        self._seen, self._first, self._second = (float(state[name]) for name in ("seen", "first", "second"))


def varies(variance: float, target_N: Tensor) -> bool:
    """Whether the variance of targets is more than the rounding of equal ones."""
    return bool(target_N.numel()) and variance > (ROUNDING * float(target_N.abs().max())) ** 2
