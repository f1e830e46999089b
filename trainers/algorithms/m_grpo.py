"""M-GRPO, WebAgent-R1's multi-turn GRPO: a loss that is a mean over tokens, then turns, then trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ..critics.values import Values
from ..learning.advantages import Scale, centered
from ..learning.batch import Batch
from .algorithm import Algorithm, Credit


class MGRPO(Algorithm):
    """``−(1/G) Σ_i (1/|τ_i|) Σ_j (1/|a_ij|) Σ_t [min(ρA_i, clip(ρ)A_i) − β KL]`` with ``A_i = (R_i − R̄) / std``
    (Wei et al., arXiv 2505.16421, eq. 2 and 3).

    The two inner means are the normalizer ``turn_mean``: every turn counts the same whatever its length, and so does
    every episode. The model reads observations but is never trained on them (traps.md, traps 27 and 28).
    """

    paper: ClassVar[Mapping[str, Any]] = {
        "normalizer": "turn_mean",
        "loss": {"kl": {"coef": 1e-3, "estimator": "k3"}},
    }
    smallest_group: ClassVar[int] = 2

    name: Literal["m-grpo"] = "m-grpo"
    """Multi-turn GRPO."""
    std: Scale = "group"
    """Divisor of advantages: the deviation in the ``group`` (the paper's z-score), in the ``batch``, or ``none``."""

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Put the z-score of ``R_i`` in its group on every sampled token of trajectory i."""
        return Credit(batch.rows.with_advantage(centered(batch.return_E, batch.group_E, scale=self.std)))
