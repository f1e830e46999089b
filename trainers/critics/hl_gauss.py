"""HL-Gauss: values as distributions over bins, learned by cross-entropy instead of squared errors.

Farebrother et al., "Stop Regressing: Training Value Functions via Classification for Scalable Deep RL" (arXiv
2403.03950, section 3.1), after Imani and White, "Improving Regression Performance with Distributional Losses" (arXiv
1806.04613). A target y becomes a Gaussian around it, cut to [low, high]; a bin's probability is its share of the
Gaussian. The value of a prediction is the mean of the bins' centers.
"""

from __future__ import annotations

import math
from typing import Self

import pydantic
import torch
from torch import Tensor, nn

from ...config import Config


class HistogramConfig(Config):
    """The bins of a critic that predicts distributions."""

    low: float
    """Lower end of the bins, in units of reward. Choose it a few bins below the lowest return: values near an end are
    drawn inwards, since the Gaussian is cut there."""
    high: float
    """Upper end of the bins, likewise above the highest return."""
    bins: int = pydantic.Field(default=51, ge=2)
    """Number of bins, all of the same width."""
    sigma: float = pydantic.Field(default=0.75, gt=0)
    """Standard deviation of a target's Gaussian, in widths of a bin (paper: 0.75, so that it covers some six bins)."""

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g} must be below high = {self.high:g}: the bins lie between them")
        return self


class Histogram(nn.Module):
    """Converts between values and distributions over K bins.

    Args:
        config: the bins.
    """

    edges: Tensor
    centres: Tensor

    def __init__(self, config: HistogramConfig) -> None:
        super().__init__()
        self.low, self.high = config.low, config.high
        self.deviation = config.sigma * (config.high - config.low) / config.bins
        edges = torch.linspace(config.low, config.high, config.bins + 1, dtype=torch.float64)
        self.register_buffer("edges", edges.float(), persistent=False)
        self.register_buffer("centres", ((edges[1:] + edges[:-1]) / 2).float(), persistent=False)

    def mean(self, logits_XK: Tensor) -> Tensor:
        """Return the mean of each predicted distribution, ``[X]``."""
        return (logits_XK.softmax(-1) * self.centres).sum(-1)

    def distribution(self, value_X: Tensor) -> Tensor:
        """Return the probabilities of the bins for targets, ``[X, K]``; targets beyond the ends count as the ends."""
        inside = value_X.clamp(self.low, self.high)[..., None]
        below = torch.erf((self.edges - inside) / (math.sqrt(2) * self.deviation))
        return (below[..., 1:] - below[..., :-1]) / (below[..., -1:] - below[..., :1])

    def loss(self, logits_XK: Tensor, value_X: Tensor) -> Tensor:
        """Return the cross-entropy of predictions with the distributions of targets, ``[X]``."""
        return -(self.distribution(value_X) * logits_XK.log_softmax(-1)).sum(-1)

    def outside(self, value_X: Tensor) -> float:
        """Return the share of targets beyond the ends, where no prediction can reach them."""
        return float(((value_X < self.low) | (value_X > self.high)).float().mean())
