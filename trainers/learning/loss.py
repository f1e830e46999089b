"""The loss kernel: every policy-gradient algorithm here is this one sum with other advantages, weights and ratios.

With ρ = π/π_old of the token, or of the turn or trajectory that it is part of (the product over its tokens, or their
geometric mean: GSPO's s_i(θ), arXiv 2507.18071, eq. 7) and A the advantage, each token's loss is

- ``ppo``: ``−min(ρA, clip(ρ)A)`` (arXiv 1707.06347, eq. 7). At level ``trajectory`` with weights that sum to 1 over the
  trajectory this is exactly one clipped term per trajectory (2507.18071, eq. 5). ``dual_clip`` c > 1 bounds what is
  made large by cA from below where A < 0 (arXiv 1912.09729, eq. 5). Without it ρ is unbounded there: 1,000 tokens that
  became .01 nat likelier make ρ = e¹⁰, and beyond e²⁰ the ratio is cut off and has no gradient;
- ``cispo``: ``−sg(clip(ρ)) · A · log π`` (arXiv 2506.13585, eq. 4): a clipped token still has a gradient. With a lower
  bound of 0 this is ScaleRL's one-sided ``−sg(min(ρ, ε)) · A · log π`` (arXiv 2510.13786);
- ``reinforce``: ``−A · log π``.

Where sampler and trainer differ it is multiplied by f(w), w = π_old/π_behave of the token, or of a segment (the
product): ``tis``, f = min(w, cap), truncates; ``mis``, f = w within [floor, cap] and 0 beyond, masks. No weight is
scaled up for what this takes away: the denominator stays (traps.md, trap 21). With ``logp_old`` of a *proximal*
policy that is neither the sampler's nor the present one, ``tis`` with a cap that never binds is decoupled PPO
(arXiv 2505.24298, eq. 5: clip θ/prox, weigh prox/behave).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from ...errors import UsageError
from .kl import LOG_RATIO_LIMIT, kl_estimate

Level = Literal["token", "turn", "trajectory"]
Kind = Literal["ppo", "cispo", "reinforce"]
Correction = Literal["none", "tis", "mis"]
CorrectionSetting = Literal["auto", "none", "tis", "mis"]


def loop_bounds(epsilon: float) -> tuple[float, float]:
    """LOOP's bounds on a ratio, ``[1/(1+ε), 1+ε]``: equal in log space (arXiv 2502.01600)."""
    return 1 / (1 + epsilon), 1 + epsilon


def ppo_bounds(low: float, high: float) -> tuple[float, float]:
    """PPO's bounds on a ratio, ``[1−low, 1+high]`` (arXiv 1707.06347)."""
    return 1 - low, 1 + high


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Measurements of the kernel per sampled token, detached. Join those of micro-batches, then call ``metrics()``.

    Args:
        log_ratio: log π/π_old of the token itself, ``[N]``.
        ratio: ratio in the loss, of the token's segment, ``[N]``.
        clipped_low: whether the lower bound decided the loss, ``[N]``.
        clipped_high: whether the upper bound decided the loss, ``[N]``.
        log_mismatch: log π_old/π_behave, the disagreement of trainer and sampler, ``[N]``.
        means: further numbers of each token, by the name under which their mean is reported, ``[N]`` each.
        sums: contributions of each token to a term of the loss, by the name under which their sum is reported.
        place: row of each token, and its index in the row, ``[N, 2]``; ``None`` unless the learner sets it.
    """

    log_ratio: Tensor
    ratio: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    log_mismatch: Tensor
    means: Mapping[str, Tensor] = field(default_factory=dict)
    sums: Mapping[str, Tensor] = field(default_factory=dict)
    place: Tensor | None = None

    @classmethod
    def join(cls, parts: Sequence[Diagnostics]) -> Diagnostics:
        """Join the measurements of several micro-batches of one objective."""

        def joined(values: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
            return {name: torch.cat([value[name] for value in values]) for name in values[0]}

        return cls(
            torch.cat([part.log_ratio for part in parts]),
            torch.cat([part.ratio for part in parts]),
            torch.cat([part.clipped_low for part in parts]),
            torch.cat([part.clipped_high for part in parts]),
            torch.cat([part.log_mismatch for part in parts]),
            joined([part.means for part in parts]),
            joined([part.sums for part in parts]),
            torch.cat(places) if (places := [part.place for part in parts if part.place is not None]) else None,
        )

    def metrics(self) -> dict[str, float]:
        """Return numbers to log; means hide a mismatch, so tails and effective sample sizes are among them."""
        if not self.log_ratio.numel():
            return {}
        mismatch = self.log_mismatch.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
        return {
            "kl_k1": float(kl_estimate(-self.log_ratio, torch.zeros_like(self.log_ratio), "k1").mean()),
            "kl_k3": float(kl_estimate(-self.log_ratio, torch.zeros_like(self.log_ratio), "k3").mean()),
            "ratio_mean": float(self.ratio.mean()),
            "ratio_p99": _quantile(self.ratio, 0.99),
            "clip_low": float(self.clipped_low.float().mean()),
            "clip_high": float(self.clipped_high.float().mean()),
            "ess": _effective(self.ratio),
            "mismatch_k3": float(kl_estimate(-self.log_mismatch, torch.zeros_like(mismatch), "k3").mean()),
            "mismatch_k1": float(-self.log_mismatch.mean()),
            "mismatch_p95": _quantile(self.log_mismatch.abs(), 0.95),
            "mismatch_p99": _quantile(self.log_mismatch.abs(), 0.99),
            "mismatch_max": float(self.log_mismatch.abs().max()),
            "mismatch_ess": _effective(mismatch),
            **{name: float(value.double().mean()) for name, value in self.means.items()},
            **{name: float(value.double().sum()) for name, value in self.sums.items()},
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
    length_normalized: bool = False,
    clip: tuple[float, float] = (0.8, 1.2),
    kind: Kind = "ppo",
    dual_clip: float | None = None,
    is_mode: Correction = "none",
    is_cap: float = 2.0,
    is_floor: float = 0.0,
    is_index: Tensor | None = None,
) -> tuple[Tensor, Diagnostics]:
    """The *sum* over sampled tokens of ``weight · loss`` (see the module's docstring); callers must not divide it.

    Args:
        logp: log π of each token, with gradient, ``[T]``. Values where ``mask`` is false are ignored.
        logp_old: log-probability under the policy before the update, ``[T]``.
        logp_behave: log-probability under the policy that sampled, ``[T]``.
        advantage: credit of each token, ``[T]``.
        weight: weight of each token from ``normalizer``; there is no other normalization.
        mask: true on sampled tokens.
        index: index of the turn or trajectory of each token; a segment must be complete.
        level: unit of a ratio.
        length_normalized: whether a segment's ratio is the geometric mean over its tokens, not the product.
        clip: lower and upper bound of ρ; see ``loop_bounds`` and ``ppo_bounds``.
        kind: kind of surrogate.
        dual_clip: the factor c, only for ``ppo``.
        is_mode: correction for a sampler that differs from the trainer.
        is_cap: upper bound of the correction.
        is_floor: bound below which ``"mis"`` masks.
        is_index: segments over which the correction is one product, likewise complete. Without it, it is per token.

    Raises:
        UsageError: bounds do not enclose 1, a cap is below 1, or settings contradict each other.
    """
    _check(level, clip, kind, is_mode, index)
    _check_options(level, length_normalized, kind, dual_clip, is_cap, is_floor)
    logp_N, old_N, advantage_N = logp[mask], logp_old[mask], advantage[mask]  # first: 0 · inf is NaN
    log_ratio_N, log_mismatch_N = logp_N - old_N, (old_N - logp_behave[mask]).detach()
    segment_N = index[mask] if index is not None and level != "token" else None
    ratio_N = _over(log_ratio_N, segment_N, mean=length_normalized)
    surrogate_N, clipped_N = _surrogate(kind, logp_N, ratio_N, advantage_N, clip)
    means: dict[str, Tensor] = {}
    if dual_clip is not None:
        means["clip_dual"] = (advantage_N < 0) & (surrogate_N.detach() < dual_clip * advantage_N)
        surrogate_N = torch.where(means["clip_dual"], dual_clip * advantage_N, surrogate_N)
    if is_mode != "none":
        mismatch_N = _over(log_mismatch_N, is_index[mask] if is_index is not None else None)
        factor_N, means[f"{is_mode}_share"] = _correction(mismatch_N, is_mode, is_cap, is_floor)
        surrogate_N = surrogate_N * factor_N
    low_N, high_N = clipped_N & (ratio_N < clip[0]), clipped_N & (ratio_N > clip[1])
    diagnostics = Diagnostics(log_ratio_N.detach(), ratio_N.detach(), low_N, high_N, log_mismatch_N, means)
    return -(weight[mask] * surrogate_N).sum(), diagnostics


def _correction(mismatch_N: Tensor, mode: Correction, cap: float, floor: float) -> tuple[Tensor, Tensor]:
    """Return the factor f(w), and where it differs from w: truncated, or masked."""
    if mode == "tis":
        return mismatch_N.clamp(max=cap), mismatch_N > cap
    masked_N = (mismatch_N > cap) | (mismatch_N < floor)
    return torch.where(masked_N, 0.0, mismatch_N), masked_N


def _surrogate(
    kind: Kind, logp_N: Tensor, ratio_N: Tensor, advantage_N: Tensor, clip: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Return the quantity to maximize per token, and whether a bound decided it."""
    if kind == "reinforce":
        return advantage_N * logp_N, torch.zeros_like(ratio_N, dtype=torch.bool)
    bounded = ratio_N.clamp(*clip)
    if kind == "cispo":
        # Detached: in CISPO the ratio weighs the token's gradient and has none of its own.
        return bounded.detach() * advantage_N * logp_N, bounded != ratio_N
    return torch.minimum(ratio_N * advantage_N, bounded * advantage_N), bounded * advantage_N < ratio_N * advantage_N


def _over(log_ratio_N: Tensor, index_N: Tensor | None, *, mean: bool = False) -> Tensor:
    """Return the ratio of each token's segment for each of its tokens; without an index, of the token itself."""
    if index_N is not None:
        segments, inverse_N = torch.unique(index_N, return_inverse=True)
        sums = torch.zeros(segments.numel(), dtype=log_ratio_N.dtype, device=log_ratio_N.device)
        of_segment = sums.index_add(0, inverse_N, log_ratio_N)
        if mean:
            of_segment = of_segment / torch.bincount(inverse_N, minlength=segments.numel())
        log_ratio_N = of_segment[inverse_N]
    # Clamped in log space, because exp overflows to infinity first.
    return log_ratio_N.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def _effective(weights: Tensor) -> float:
    """Return the effective sample size as a share of N, ``(Σw)² / (N Σw²)``: 1 if all weights are equal."""
    double = weights.double()  # squares of ratios up to e²⁰ lose all digits of the others in 32 bits
    return float(double.sum().square() / (double.numel() * double.square().sum()).clamp_min(1e-300))


def _quantile(values: Tensor, share: float) -> float:
    """Like ``torch.quantile``, which refuses more than 16 million numbers: as many tokens as a large batch has."""
    ordered = values.double().sort().values
    place = share * (ordered.numel() - 1)
    low, high = ordered[int(place)], ordered[min(int(place) + 1, ordered.numel() - 1)]
    return float(torch.lerp(low, high, place - int(place)))


def _check(level: Level, clip: tuple[float, float], kind: Kind, is_mode: Correction, index: Tensor | None) -> None:
    if not 0 <= clip[0] <= 1 <= clip[1]:
        raise UsageError(f"clip bounds {clip} do not enclose 1: they bound the ratio itself, as in (0.8, 1.2)")
    for name, value, known in (
        ("level", level, get_args(Level)),
        ("kind", kind, get_args(Kind)),
        ("is_mode", is_mode, get_args(Correction)),
    ):
        if value not in known:
            raise UsageError(f"{name} {value!r} is unknown; choose one of {', '.join(known)}")
    if level != "token" and index is None:
        raise UsageError(f"level {level!r} needs the index of the {level} that each token is part of")


def _check_options(
    level: Level, length_normalized: bool, kind: Kind, dual_clip: float | None, is_cap: float, is_floor: float
) -> None:
    if length_normalized and level == "token":
        raise UsageError("length_normalized averages over a turn or trajectory, but level is token: choose one")
    if dual_clip is not None and (kind != "ppo" or dual_clip <= 1):
        raise UsageError(f"dual_clip {dual_clip} with kind {kind!r}: it must be above 1, and only ppo has a use for it")
    if is_cap < 1:
        raise UsageError(f"is_cap {is_cap} is below 1: it would scale down tokens that sampler and trainer agree on")
    if not 0 <= is_floor <= 1:
        raise UsageError(f"is_floor {is_floor} is not in [0, 1]: it would mask what sampler and trainer agree on")
