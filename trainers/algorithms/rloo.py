"""RLOO: REINFORCE over whole trajectories, each judged against the others of its task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ..critics.values import Values
from ..learning.advantages import leave_one_out
from ..learning.batch import Batch
from .algorithm import Algorithm, Credit


class RLOO(Algorithm):
    """``∇J = (1/K) Σ_i (R_i − mean_{j≠i} R_j) ∇ log π(τ_i)`` (Ahmadian et al., arXiv 2402.14740, eq. 8).

    The baseline is made of independent samples, so the estimate is unbiased; nothing is clipped unless the policy has
    moved, since the one ratio of a trajectory is 1 in the first pass.
    """

    paper: ClassVar[Mapping[str, Any]] = {"epochs": 1, "normalizer": "traj_mean", "loss": {"ratio_level": "trajectory"}}
    smallest_group: ClassVar[int] = 2

    name: Literal["rloo"] = "rloo"
    """REINFORCE leave-one-out."""

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """``R_i − mean of the others' R`` on every sampled token of trajectory i."""
        return Credit(batch.rows.with_advantage(leave_one_out(batch.return_E, batch.group_E)))
