"""EMPG, entropy-modulated policy gradients: confident turns learn more, uncertain ones less (arXiv 2509.09265)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import pydantic
import torch
from torch import Tensor

from ..learning.batch import Batch
from ..learning.rows import Rows
from .modulator import Modulator, per_turn


class EMPG(Modulator):
    """``A_mod(i, t) = A(i, t) · g(H_t) + ζ f(H_{t+1})`` on every sampled token of turn t (Wang et al., 2509.09265).

    H_t is the mean entropy of the turn's tokens, and Ĥ is H after a min-max normalization over the turns of the batch.
    ``g(H) = e^{−kĤ} / mean e^{−kĤ}`` has the mean 1 over the batch's turns, so it moves the signal between turns and
    adds none. ``f(H) = e^{−k'Ĥ}`` is the future clarity bonus, which an episode's last turn does not get. Subtracting
    the batch's mean afterwards keeps the bonus from rewarding every turn.

    Turns that the algorithm skipped have an entropy, but no advantage, and do not count in the means of g and of the
    result.
    """

    renamed: ClassVar[Mapping[str, str]] = {"centred": "centered"}

    name: Literal["empg"] = "empg"
    """Entropy-modulated policy gradients."""
    k: float = pydantic.Field(default=1.0, ge=0)
    """Sharpness of g; 0: no turn counts more than another."""
    k_future: float = pydantic.Field(default=1.0, ge=0)
    """Sharpness k' of f."""
    zeta: float = pydantic.Field(default=0.05, ge=0)
    """Weight ζ of the bonus."""
    centered: bool = True
    """Subtract the mean over the batch's turns from the result."""

    def modulate(self, batch: Batch, rows: Rows) -> Rows:
        """Scale by g, add ζ f of the next turn, and subtract the mean."""
        learns_U = per_turn(batch, rows, rows.advantage)[1] > 0
        if not bool(learns_U.any()):
            return rows
        sums_U, tokens_U = per_turn(batch, replace(rows, mask=batch.rows.mask), rows.entropy)
        said_U = tokens_U > 0
        normal_U = normalized(sums_U / tokens_U.clamp_min(1), said_U)
        scale_U = torch.exp(-self.k * normal_U)
        scale_U = scale_U / scale_U[learns_U].mean()
        clarity_U = torch.zeros_like(scale_U)
        follows_U = (batch.episode_U[1:] == batch.episode_U[:-1]) & said_U[1:]
        clarity_U[:-1] = torch.where(follows_U, torch.exp(-self.k_future * normal_U[1:]), 0.0)
        turn_T = rows.turn.clamp_min(0)
        advantage_T = rows.advantage.double() * scale_U[turn_T] + self.zeta * clarity_U[turn_T]
        if self.centered:
            mean_U = per_turn(batch, rows, advantage_T)[0] / tokens_U.clamp_min(1)
            advantage_T = advantage_T - mean_U[learns_U].mean()
        return rows.with_token_advantage(advantage_T)


def normalized(entropy_U: Tensor, said_U: Tensor) -> Tensor:
    """Ĥ = (H − min) / (max − min) over the turns that have tokens; 0 for all if these are equal."""
    low, high = entropy_U[said_U].min(), entropy_U[said_U].max()
    return torch.where(said_U & (high > low), (entropy_U - low) / (high - low).clamp_min(1e-300), 0.0)
