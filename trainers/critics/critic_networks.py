"""The networks of a critic over utterances: an encoder, and heads for Q and V."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from .encoder import Encoder
from .hl_gauss import Histogram, HistogramConfig


class Networks(nn.Module):
    """An encoder with two heads for Q and two for V, each an MLP of three layers.

    Args:
        encoder: an ``Encoder`` and a module.
        width: width of the heads' hidden layers.
        histogram: settings of heads that predict a distribution; ``None`` for heads that predict a number.
    """

    def __init__(self, encoder: nn.Module, width: int, histogram: HistogramConfig | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.histogram = Histogram(histogram) if histogram is not None else None
        read, outputs = cast(Encoder, encoder).width, 1 if histogram is None else histogram.bins
        self.q_heads = nn.ModuleList(_head(2 * read, width, outputs) for _ in range(2))
        self.v_heads = nn.ModuleList(_head(read, width, outputs) for _ in range(2))
        self.register_buffer("units", torch.tensor([0.0, 1.0]))
        """Center and spread: the units of the heads' outputs; inputs and outputs of the critic are in reward."""

    def q(self, state_BH: Tensor, action_BH: Tensor) -> Tensor:
        """Q by each head, ``[2, B]``."""
        return self.values(self.q_outputs(state_BH, action_BH))

    def v(self, state_BH: Tensor) -> Tensor:
        """V by each head, ``[2, B]``."""
        return self.values(self.v_outputs(state_BH))

    def q_outputs(self, state_BH: Tensor, action_BH: Tensor) -> Tensor:
        """Outputs of the heads for Q, ``[2, B, K]``: one number, or the logits of K bins."""
        both = torch.cat([state_BH, action_BH], dim=-1)
        return torch.stack([head(both) for head in self.q_heads])

    def v_outputs(self, state_BH: Tensor) -> Tensor:
        """Outputs of the heads for V, ``[2, B, K]``."""
        return torch.stack([head(state_BH) for head in self.v_heads])

    def values(self, output_2BK: Tensor) -> Tensor:
        """Convert outputs to values in units of reward, ``[2, B]``."""
        if self.histogram is not None:
            return self.histogram.mean(output_2BK)
        units = self.get_buffer("units")
        return units[0] + units[1] * output_2BK[..., 0]

    def last_layers(self) -> list[nn.Linear]:
        """Return the last layer of each head, whose outputs are in ``units``."""
        return [cast(nn.Linear, cast(nn.Sequential, head)[-1]) for head in (*self.q_heads, *self.v_heads)]


def _head(size: int, width: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )
