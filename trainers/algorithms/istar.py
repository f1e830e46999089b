"""iStar: step rewards that are implicit in a model of preferences between whole trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
import torch
from torch import Tensor

from ...errors import UsageError
from ..critics.values import Values
from ..learning.advantages import Scale, centered
from ..learning.batch import Batch
from ..learning.loss import Level
from .algorithm import Algorithm, Credit


class IStar(Algorithm):
    """``A_u = A_E(τ) + α A_S(u)``: online process rewards for agents (Liu et al., arXiv 2509.19199).

    A second model π_φ learns from pairs of a group's attempts by DPO: of two attempts, the one that returned more
    should have the higher ``β Σ_t log π_φ/π_old``. Then ``r_u = β Σ_{t ∈ u} log π_φ(a_t)/π_old(a_t)`` is the reward of
    turn u. ``A_E`` compares the episode's return with its group's, and ``A_S`` the step rewards of all turns in the
    group. At the optimum for β, r_u is the environment's reward plus a difference of soft values, ``r + V(s′) − V(s)``:
    it says when the outcome was decided and leaves the order of whole trajectories as it is.
    """

    paper: ClassVar[Mapping[str, Any]] = {"normalizer": "traj_mean"}
    smallest_group: ClassVar[int] = 2

    name: Literal["istar"] = "istar"
    """Implicit step rewards."""
    beta: float = pydantic.Field(default=0.05, gt=0)
    """β of the preferences, in units of reward per nat (paper: 0.05)."""
    alpha: float = pydantic.Field(default=1.0, ge=0)
    """α, the weight of the step advantages; 0 leaves GRPO."""
    std: Scale = "group"
    """Divisor of both advantages: the deviation in the ``group`` (the paper) or ``batch``, or ``none``."""
    lr: float = pydantic.Field(default=5e-4, gt=0, le=1000)
    """Constant learning rate of π_φ. 5e-4 suits nano models, 1e-6 large ones; all else is as in ``optimizer``."""
    epochs: int = pydantic.Field(default=1, ge=1)
    """Updates of π_φ per step, each on all pairs."""

    @property
    def credit_level(self) -> Level:
        """Each turn, by its implicit reward."""
        return "turn"

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Put both advantages on the tokens of each turn; the targets of π_φ are the returns of episodes.

        Args:
            batch: the batch.
            values: π_φ, whose "values" are its log-probabilities of the sampled tokens.

        Raises:
            UsageError: there is no model of preferences.
        """
        if values is None:
            raise UsageError("istar takes step rewards from a model of preferences: pass values")
        step_U = step_rewards(batch, values.values(batch.rows), self.beta)
        episode_E = centered(batch.return_E, batch.group_E, scale=self.std)
        acting_U = torch.zeros(len(batch.reward_U), dtype=torch.bool)
        acting_U[batch.rows.turn[batch.rows.mask]] = True  # turns without tokens have no step reward to compare
        compared_U = torch.zeros_like(step_U)
        group_U = batch.group_U[acting_U]
        compared_U[acting_U] = centered(step_U[acting_U], group_U, scale=self.std, rounding=0.0)
        advantage_U = episode_E[batch.episode_U] + self.alpha * compared_U.to(episode_E.dtype)
        target_T = torch.where(batch.rows.mask, batch.return_E[batch.rows.episode], 0.0)
        return Credit(batch.rows.with_turn_advantage(advantage_U), target_T)


def step_rewards(batch: Batch, logp_T: Tensor, beta: float) -> Tensor:
    """``β Σ_{t ∈ u} (log π_φ(a_t) − log π_old(a_t))`` of each turn, ``[U]``, 64-bit.

    Args:
        batch: the batch, with the present policy's ``logp_old``.
        logp_T: log π_φ of each sampled token, ``[T]``.
        beta: β.
    """
    mask = batch.rows.mask
    ratio_N = (logp_T - batch.rows.logp_old)[mask].double()
    return torch.zeros(len(batch.reward_U), dtype=torch.float64).index_add_(0, batch.rows.turn[mask], beta * ratio_N)
