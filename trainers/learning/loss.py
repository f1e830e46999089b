"""The loss kernel: every policy-gradient algorithm here is this one sum with other advantages, weights and ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ...errors import UsageError
from .kl import kl_estimate

Level = Literal["token", "turn", "trajectory"]
Kind = Literal["ppo", "cispo", "reinforce"]
Correction = Literal["none", "tis"]

LOG_RATIO_LIMIT = 20.0
"""Log ratios are cut here before ``exp``: beyond it a ratio says only "far away", and inf · 0 would be NaN."""


def loop_bounds(epsilon: float) -> tuple[float, float]:
    """LOOP's bounds on a ratio, ``[1/(1+ε), 1+ε]``: equal in log space (arXiv 2502.01600)."""
    return 1 / (1 + epsilon), 1 + epsilon


def ppo_bounds(low: float, high: float) -> tuple[float, float]:
    """PPO's bounds on a ratio, ``[1−low, 1+high]`` (arXiv 1707.06347)."""
    return 1 - low, 1 + high


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What the kernel saw, per sampled token; detached. Join those of micro-batches, then ask for ``metrics()``.

    Args:
        log_ratio: log π/π_old of the token itself, ``[N]``.
        ratio: the ratio that entered the loss, of the token's segment, ``[N]``.
        clipped_low: the lower bound decided the loss, ``[N]``.
        clipped_high: the upper bound decided the loss, ``[N]``.
        log_mismatch: log π_old/π_behave: what trainer and sampler disagree on, ``[N]``.
    """

    log_ratio: Tensor
    ratio: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    log_mismatch: Tensor

    @classmethod
    def join(cls, parts: Sequence[Diagnostics]) -> Diagnostics:
        """One record of several micro-batches."""
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def metrics(self) -> dict[str, float]:
        """Numbers worth a curve; means hide a mismatch, so tails and effective sample sizes are among them."""
        if not self.log_ratio.numel():
            return {}
        mismatch = self.log_mismatch.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
        return {
            "kl_k1": float(kl_estimate(-self.log_ratio, torch.zeros_like(self.log_ratio), "k1").mean()),
            "kl_k3": float(kl_estimate(-self.log_ratio, torch.zeros_like(self.log_ratio), "k3").mean()),
            "ratio_mean": float(self.ratio.mean()),
            "ratio_p99": float(torch.quantile(self.ratio.double(), 0.99)),
            "clip_low": float(self.clipped_low.float().mean()),
            "clip_high": float(self.clipped_high.float().mean()),
            "ess": _effective(self.ratio),
            "mismatch_k3": float(kl_estimate(-self.log_mismatch, torch.zeros_like(mismatch), "k3").mean()),
            "mismatch_p99": float(torch.quantile(self.log_mismatch.abs().double(), 0.99)),
            "mismatch_ess": _effective(mismatch),
        }


def policy_loss(
    logp: Tensor,
    logp_old: Tensor,
    logp_behave: Tensor,
    advantage: Tensor,
    weight: Tensor,
    mask: Tensor,
    index: Tensor | None = None,
    *,
    level: Level = "token",
    clip: tuple[float, float] = (0.8, 1.2),
    kind: Kind = "ppo",
    is_mode: Correction = "none",
    is_cap: float = 2.0,
) -> tuple[Tensor, Diagnostics]:
    """The *sum* over sampled tokens of ``weight · loss``; whoever calls it divides by nothing.

    With ρ = π/π_old of the token, or of the turn or trajectory that it is part of (the product over its tokens):

    - ``ppo``: ``−min(ρA, clip(ρ)A)``. At level ``trajectory`` with weights that sum to 1 over the trajectory this is
      exactly one clipped term per trajectory.
    - ``cispo``: ``−sg(clip(ρ)) · A · log π`` (arXiv 2506.13585): a clipped token still has a gradient.
    - ``reinforce``: ``−A · log π``.

    Args:
        logp: log π of each token, with gradient, ``[T]``. Where ``mask`` is false its value is never looked at.
        logp_old: log-probability under the policy before the update.
        logp_behave: log-probability under the policy that sampled.
        advantage: credit of each token.
        weight: from ``normaliser``; the only normalisation there is.
        mask: true on sampled tokens.
        index: which turn or trajectory each token is part of; a segment must be here wholly. Not needed for
            ``level="token"``.
        level: what a ratio is taken over.
        clip: lower and upper bound of ρ; see ``loop_bounds`` and ``ppo_bounds``.
        kind: the surrogate.
        is_mode: ``"tis"`` multiplies by ``min(π_old/π_behave, is_cap)``, truncated importance sampling per token.
        is_cap: the cap of that factor.

    Raises:
        UsageError: bounds that do not enclose 1, a cap below 1, or a level that needs ``index``.
    """
    _check(level, clip, kind, is_mode, is_cap, index)
    logp_N, old_N, behave_N = logp[mask], logp_old[mask], logp_behave[mask]
    advantage_N, weight_N = advantage[mask], weight[mask]
    log_ratio_N = logp_N - old_N
    ratio_N = _over(level, log_ratio_N, index[mask] if index is not None else None)
    surrogate, clipped = _surrogate(kind, logp_N, ratio_N, advantage_N, clip)
    log_mismatch_N = old_N - behave_N
    if is_mode == "tis":
        limited = log_mismatch_N.detach().clamp(max=LOG_RATIO_LIMIT).exp().clamp(max=is_cap)
        surrogate = surrogate * limited
    ratio = ratio_N.detach()
    diagnostics = Diagnostics(
        log_ratio_N.detach(), ratio, clipped & (ratio < clip[0]), clipped & (ratio > clip[1]), log_mismatch_N.detach()
    )
    return -(weight_N * surrogate).sum(), diagnostics


def _surrogate(
    kind: Kind, logp_N: Tensor, ratio_N: Tensor, advantage_N: Tensor, clip: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """What is to be made large, per token, and whether a bound had the say."""
    if kind == "reinforce":
        return advantage_N * logp_N, torch.zeros_like(ratio_N, dtype=torch.bool)
    bounded = ratio_N.clamp(*clip)
    if kind == "cispo":
        return bounded.detach() * advantage_N * logp_N, bounded != ratio_N
    return torch.minimum(ratio_N * advantage_N, bounded * advantage_N), bounded * advantage_N < ratio_N * advantage_N


def _over(level: Level, log_ratio_N: Tensor, index_N: Tensor | None) -> Tensor:
    """The ratio of each token's segment, given to each of its tokens."""
    if level != "token":
        assert index_N is not None
        segments, inverse_N = torch.unique(index_N, return_inverse=True)
        sums = torch.zeros(segments.numel(), dtype=log_ratio_N.dtype, device=log_ratio_N.device)
        log_ratio_N = sums.index_add(0, inverse_N, log_ratio_N)[inverse_N]
    return log_ratio_N.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def _effective(weights: Tensor) -> float:
    """Effective sample size as a share of N, ``(Σw)² / (N Σw²)``: 1 if all weights are equal."""
    double = weights.double()
    return float(double.sum().square() / (double.numel() * double.square().sum()).clamp_min(1e-300))


def _check(
    level: Level, clip: tuple[float, float], kind: Kind, is_mode: Correction, is_cap: float, index: Tensor | None
) -> None:
    if not 0 <= clip[0] <= 1 <= clip[1]:
        raise UsageError(f"clip bounds {clip} do not enclose 1: they bound the ratio itself, as in (0.8, 1.2)")
    if is_cap < 1:
        raise UsageError(f"is_cap {is_cap} is below 1: it would scale down tokens that sampler and trainer agree on")
    for name, value, known in (
        ("level", level, ("token", "turn", "trajectory")),
        ("kind", kind, ("ppo", "cispo", "reinforce")),
        ("is_mode", is_mode, ("none", "tis")),
    ):
        if value not in known:
            raise UsageError(f"{name} {value!r} is unknown; choose one of {', '.join(known)}")
    if level != "token" and index is None:
        raise UsageError(f"level {level!r} needs the index of the {level} that each token is part of")
