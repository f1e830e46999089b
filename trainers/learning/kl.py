"""KL divergences from samples: three estimators, their gradients as a loss, and a penalty as a loss or as a reward."""

from __future__ import annotations

from typing import Literal, Self, get_args

import pydantic
import torch
from torch import Tensor

from ...config import Config
from ...errors import UsageError
from .batch import Batch
from .rows import Rows

Estimator = Literal["k1", "k2", "k3"]

LOG_RATIO_LIMIT = 20.0
"""Log ratios are cut here before ``exp``: beyond it a ratio says only "far away", and inf · 0 would be NaN."""


def kl_estimate(logp: Tensor, logp_ref: Tensor, kind: Estimator) -> Tensor:
    """Per-sample estimate of KL(π ‖ ref), for samples of π (Schulman, "Approximating KL divergence", 2020).

    As *values*, k1 and k3 are unbiased and k3 is never negative. As *losses* differentiated through ``logp`` they
    differ: the expected gradient of k1 is 0, that of k2 is ∇KL(π ‖ ref), that of k3 is ∇KL(ref ‖ π)
    (traps.md, trap 11). Use k1 and k3 to measure, and k2 to penalise.

    Args:
        logp: log π of the samples.
        logp_ref: log ref of the same samples.
        kind: ``"k1"`` −log r; ``"k2"`` (log r)²/2; ``"k3"`` r − 1 − log r, with r = ref/π.

    Raises:
        UsageError: no such estimator.
    """
    log_r = logp_ref - logp
    if kind == "k1":
        return -log_r
    if kind == "k2":
        return log_r.square() / 2
    if kind == "k3":
        # Beyond the limit the exponential goes on as its tangent: finite, and with a gradient of the right sign.
        near = log_r.clamp(max=LOG_RATIO_LIMIT)
        return near.exp() * (1 + log_r - near) - 1 - log_r
    raise UsageError(f"KL estimator {kind!r} is unknown; choose one of {', '.join(get_args(Estimator))}")


class KLConfig(Config):
    """A penalty on the KL divergence of the policy from a frozen reference."""

    coef: float = pydantic.Field(default=0.0, ge=0)
    """Its weight β; 0: there is no reference at all."""
    where: Literal["loss", "reward"] = "loss"
    """``loss``: a term beside the policy's; ``reward``: taken off each turn's reward, before credit is given."""
    estimator: Estimator | None = None
    """``k2`` or ``k3`` as a loss, ``k1`` as a reward; omitted, k2 and k1, which have the same expected gradient."""
    reference: str | None = None
    """The reference's model folder; omitted, the model that the run started from."""

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Self:
        if self.where == "loss" and self.estimator == "k1":
            raise ValueError(
                "estimator = k1 as a loss has no effect: its expected gradient is 0, since E[∇ log π] = 0; "
                "use k2 (the gradient of KL(π ‖ ref)) or k3 (that of KL(ref ‖ π)), or where = reward"
            )
        if self.where == "reward" and self.estimator in ("k2", "k3"):
            raise ValueError(
                f"estimator = {self.estimator} as a reward has not the gradient of KL(π ‖ ref): what it depends on the "
                "policy by itself is lost; only for k1 is that 0. Use k1, or where = loss"
            )
        return self

    @property
    def used(self) -> Estimator:
        """The estimator, where none is named too."""
        return self.estimator or ("k2" if self.where == "loss" else "k1")


def kl_in_reward(batch: Batch, coef: float) -> Batch:
    """The batch with ``−β Σ_t (log π_old − log ref)`` added to each turn's reward, over the turn's sampled tokens.

    With credit that is unbiased for the rewards this adds β∇KL(π ‖ ref) to the gradient, summed over the tokens that
    were to come (InstructGPT, arXiv 2203.02155, eq. 2, whose penalty is per token; here a turn is the step).

    Args:
        batch: its rows have ``logp_old`` and ``logp_ref``.
        coef: β.
    """
    rows = batch.rows
    paid_N = (rows.logp_old - rows.logp_ref)[rows.mask].double()
    penalty_U = torch.zeros(len(batch.reward_U), dtype=torch.float64).index_add_(0, rows.turn[rows.mask], paid_N)
    return batch.with_reward((batch.reward_U.double() - coef * penalty_U).float())


def reference_metrics(rows: Rows) -> dict[str, float]:
    """How far from the reference the sampling policy was: means per token of k1 and k3; empty without tokens."""
    if not rows.tokens:
        return {}
    old_N, ref_N = rows.logp_old[rows.mask].double(), rows.logp_ref[rows.mask].double()
    return {
        "kl_ref": float(kl_estimate(old_N, ref_N, "k1").mean()),
        "kl_ref_k3": float(kl_estimate(old_N, ref_N, "k3").mean()),
    }
