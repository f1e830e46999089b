"""REINFORCE: credit every turn with the rewards after it, or with the whole return of its episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
import torch
from torch import Tensor

from ..critics.values import Values
from ..learning.advantages import centered, returns_to_go
from ..learning.batch import Batch
from ..learning.loss import Level
from .algorithm import Algorithm, Credit


class Reinforce(Algorithm):
    """Monte-Carlo policy gradient (Williams 1992), ``∇J = E Σ_u (G_u − b) Σ_{t∈u} ∇ log π(a_t)``.

    ``G_u = Σ_{v≥u} γ^{v−u} r_v`` is the return from turn u on, γ per turn (Sutton & Barto 2018, section 13.3, without
    the factor γ^u, as is usual). A batch mean is a baseline that depends on the episode itself, a bias of 1/N; with
    few episodes, RLOO is the unbiased choice. An episode that a limit cut off counts with the rewards it got.
    """

    paper: ClassVar[Mapping[str, Any]] = {"epochs": 1, "normalizer": "traj_sum", "loss": {"kind": "reinforce"}}

    name: Literal["reinforce"] = "reinforce"
    """REINFORCE."""
    credit_over: Literal["turn", "episode"] = "turn"
    """Return that credits a turn: from that turn on (``turn``), or the whole episode's (``episode``)."""
    gamma: float = pydantic.Field(default=1.0, ge=0, le=1)
    """Discount per turn."""
    baseline: Literal["none", "batch", "turn_index"] = "batch"
    """Baseline: none, the mean over the batch, or the mean over the batch's turns with the same index in their
    episodes."""

    @property
    def credit_level(self) -> Level:
        """Turns, unless return and baseline are those of whole episodes."""
        return "turn" if self.credit_over == "turn" or self.baseline == "turn_index" else "trajectory"

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """``G_u − b`` on each sampled token of turn u."""
        return Credit(batch.rows.with_turn_advantage(self._compared(batch, self._return_U(batch))))

    def _return_U(self, batch: Batch) -> Tensor:
        return_U = returns_to_go(batch, self.gamma)
        if self.credit_over == "turn":
            return return_U
        first_E = torch.zeros(len(batch.episodes)).index_add_(
            0, batch.episode_U, torch.where(batch.place_U == 0, return_U, 0.0)
        )
        return first_E[batch.episode_U]

    def _compared(self, batch: Batch, return_U: Tensor) -> Tensor:
        if self.baseline == "none":
            return return_U
        if self.baseline == "turn_index":
            return centered(return_U, batch.place_U)
        return centered(return_U, torch.zeros_like(batch.place_U))
