"""Three estimators of a KL divergence from samples, and what their gradients are when used as a loss."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from ...errors import UsageError

Estimator = Literal["k1", "k2", "k3"]

LOG_RATIO_LIMIT = 20.0
"""Log ratios are cut here before ``exp``: beyond it a ratio says only "far away", and inf · 0 would be NaN."""


def kl_estimate(logp: Tensor, logp_ref: Tensor, kind: Estimator) -> Tensor:
    """Per-sample estimate of KL(π ‖ ref), for samples of π (Schulman, "Approximating KL divergence", 2020).

    As *values*, k1 and k3 are unbiased and k3 is never negative. As *losses* differentiated through ``logp`` they
    differ: the expected gradient of k1 is 0, that of k2 is ∇KL(π ‖ ref), that of k3 is ∇KL(ref ‖ π)
    (algorithms.md, trap 11). Use k1 and k3 to measure, and k2 to penalise.

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
