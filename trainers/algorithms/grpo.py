"""GRPO: PPO's clipped loss with the mean of a group of attempts as the baseline, and no critic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ..critics.values import Values
from ..learning.advantages import Scale, centered
from ..learning.batch import Batch
from .algorithm import Algorithm, Credit


class GRPO(Algorithm):
    """``A_i = (R_i − R̄) / std`` on every token of attempt i (Shao et al., arXiv 2402.03300, eq. 3 and section 4.1.2).

    Unlike the paper's, the default divides by nothing. A deviation in the group gives more weight to tasks whose
    attempts differ *little*, and a mean over each trajectory's tokens gives more weight to short ones (Dr. GRPO, Liu
    et al., arXiv 2503.20783). With ``normalizer="traj_sum"`` neither is left, which is Dr. GRPO but for a constant.
    """

    paper: ClassVar[Mapping[str, Any]] = {"normalizer": "traj_mean"}
    smallest_group: ClassVar[int] = 2

    name: Literal["grpo"] = "grpo"
    """Group-relative policy optimization."""
    std: Scale = "none"
    """Divisor of advantages: ``none``; the deviation in the ``group`` (the paper); or that of all advantages in the
    ``batch`` (REINFORCE++, arXiv 2501.03262; ScaleRL, arXiv 2510.13786)."""

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """``(R_i − R̄) / std`` on every sampled token of trajectory i."""
        return Credit(batch.rows.with_advantage(centered(batch.return_E, batch.group_E, scale=self.std)))
