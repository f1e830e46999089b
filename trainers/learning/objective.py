"""The objective of one update: settings, and a sum over the sampled tokens of some rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

import pydantic
from torch import Tensor

from ...config import Config
from .entropy import EntropyBand, SmoothingConfig, outside
from .kl import Estimator, KLConfig, kl_estimate
from .logprobs import Scores
from .loss import Correction, CorrectionSetting, Diagnostics, Kind, Level, loop_bounds, policy_loss, ppo_bounds
from .rows import Rows, Unit


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss that one update minimizes, and the limit beyond which it is refused.

    Args:
        ratio_level: unit of a ratio.
        clip: bounds of the ratio.
        kind: kind of surrogate.
        is_mode: correction for a sampler that differs from the trainer.
        is_cap: upper bound of the correction.
        max_kl: limit of the KL(old ‖ new) summed per episode; beyond it the update is refused and reported.
        length_normalized: whether a segment's ratio is the geometric mean over its tokens, not the product.
        dual_clip: bound of the surrogate where the advantage is negative.
        is_level: unit of the correction's ratio.
        is_floor: bound below which masked importance sampling masks.
        kl_coef: coefficient of the KL to the reference policy as a loss, which needs rows with ``logp_ref``.
        kl_estimator: estimator of that KL.
        entropy_coef: coefficient of the entropy bonus.
        band: penalty on entropies outside a band; it changes with each step, as the run's history does.
    """

    ratio_level: Level = "token"
    clip: tuple[float, float] = (0.8, 1.2)
    kind: Kind = "ppo"
    is_mode: Correction = "none"
    is_cap: float = 2.0
    max_kl: float | None = None
    length_normalized: bool = False
    dual_clip: float | None = None
    is_level: Level = "token"
    is_floor: float = 0.0
    kl_coef: float = 0.0
    kl_estimator: Estimator = "k2"
    entropy_coef: float = 0.0
    band: EntropyBand | None = None

    @property
    def beyond_advantage(self) -> bool:
        """Whether tokens without advantage have a gradient too: penalties and bonuses apply to all weighted tokens."""
        return self.needs_reference or self.needs_entropy_gradient

    @property
    def needs_entropy_gradient(self) -> bool:
        """Whether the loss differentiates through the entropy."""
        return self.entropy_coef != 0 or self.band is not None

    @property
    def needs_reference(self) -> bool:
        """Whether the loss reads ``logp_ref``."""
        return self.kl_coef != 0

    @property
    def whole(self) -> Unit:
        """Unit that a micro-batch must not divide: the ratio of a divided segment would be wrong."""
        corrected = self.is_mode != "none" and self.is_level == "trajectory"
        return "episode" if corrected or self.ratio_level == "trajectory" else "row"


class LossConfig(Config):
    """The loss of a configuration."""

    renamed: ClassVar[Mapping[str, str]] = {"level": "ratio_level", "length_normalised": "length_normalized"}

    ratio_level: Level = "token"
    """Unit of an importance ratio: ``token``, ``turn`` or ``trajectory``. The product over a segment is one term that
    weighs as much as its tokens together: 1 with ``turn_mean`` of a turn, and with ``traj_mean`` of a trajectory. With
    ppo it must not be coarser than the credit."""
    length_normalized: bool = False
    """Whether a turn's or trajectory's ratio is the geometric mean over its tokens (GSPO), not the product. Bounds then
    mean the same for long and short ones, and must be far narrower (GSPO: 3e-4 and 4e-4)."""
    kind: Kind = "ppo"
    """The surrogate: ``ppo``, ``cispo`` or ``reinforce``."""
    bounds: Literal["ppo", "loop"] = "ppo"
    """Clipping of ratios: ``ppo`` to [1 − low, 1 + high], ``loop`` to [1/(1 + low), 1 + high]."""
    clip_low: float = pydantic.Field(default=0.2, ge=0)
    """How far below 1 a ratio is clipped; with ppo bounds, 1 removes the lower bound (one-sided CISPO)."""
    clip_high: float = pydantic.Field(default=0.2, ge=0)
    """How far above 1 a ratio is clipped; if larger than ``clip_low``, rare tokens can become likely (clip-higher)."""
    dual_clip: float | None = pydantic.Field(default=3.0, gt=1)
    """With ppo: where the advantage A is negative, the surrogate is never below this times A. Otherwise one long turn
    that became likelier owns the update: ratios of turns and trajectories are products over their tokens."""
    is_mode: CorrectionSetting = "auto"
    """Correction for a sampler that differs from the trainer: ``none``, ``tis`` (truncated) or ``mis`` (masked).
    ``auto`` is ``tis`` if servers sample or episodes are played during learning, otherwise ``none``."""
    is_level: Level = "token"
    """Unit of the correction's ratio: ``token``, ``turn`` or ``trajectory``."""
    is_cap: float = pydantic.Field(default=2.0, ge=1)
    """Upper bound of the correction: beyond it ``tis`` truncates, and ``mis`` masks."""
    is_floor: float = pydantic.Field(default=0.0, ge=0, le=1)
    """Lower bound of the correction: below it ``mis`` masks too."""
    kl: KLConfig = KLConfig()
    """Penalty on the distance from a frozen reference policy."""
    entropy_coef: float = 0.0
    """Weight of an entropy bonus, with the same weights of tokens as the loss (negative: a penalty)."""
    smoothing: SmoothingConfig | None = None
    """Keep the entropy of tokens near the mean of the run so far (EPO)."""
    max_kl: float | None = pydantic.Field(default=None, gt=0)
    """KL from the policy at the start of the step, summed over an episode, at which the step ends early."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _dual_clip_of_ppo(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("kind", "ppo") != "ppo":
            return {"dual_clip": None, **given}
        return given

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.bounds == "ppo" and self.clip_low > 1:
            raise ValueError(f"clip_low = {self.clip_low} makes the lower bound 1 - clip_low negative; use at most 1")
        if self.length_normalized and self.ratio_level == "token":
            raise ValueError("length_normalized needs ratio_level = turn or trajectory: a token has no length")
        if self.dual_clip is not None and self.kind != "ppo":
            raise ValueError(f"dual_clip bounds the ppo surrogate; kind = {self.kind} has no use for it")
        if self.is_floor > 0 and self.is_mode != "mis":
            raise ValueError(f"is_floor is for is_mode = mis; {self.is_mode} masks nothing")
        return self

    @property
    def whole_terms(self) -> bool:
        """Whether each token's loss is the term of its whole segment: the product of ratios, with its gradient."""
        return self.kind == "ppo" and self.ratio_level != "token" and not self.length_normalized

    def refuse_erasing(self, credit_level: Level, source: str) -> None:
        """Refuse ratios of segments whose tokens differ in credit: all of them would learn from the mean of theirs.

        In ``ppo``, the gradient of a segment's ratio is that of all its tokens, whichever token's advantage multiplies
        it. ``cispo`` detaches the ratio and ``reinforce`` has none, so each token keeps its own advantage.

        Args:
            credit_level: coarsest segment within which credit is equal.
            source: name of the setting that assigns this credit, for the message.

        Raises:
            ValueError: the ratios are coarser.
        """
        levels = get_args(Level)
        if self.kind == "ppo" and levels.index(self.ratio_level) > levels.index(credit_level):
            raise ValueError(
                f"loss.ratio_level = {self.ratio_level} with loss.kind = ppo gives every token of a {self.ratio_level} "
                f"the mean credit of all, and {source} credits each {credit_level} separately: set loss.ratio_level = "
                f"{credit_level}, or loss.kind = cispo"
            )

    def for_sampler(self, settings: Mapping[str, Any]) -> Self:
        """Return the same with ``is_mode = auto`` resolved; see ``correction_for``."""
        return self.model_copy(update={"is_mode": correction_for(self.is_mode, settings)})

    def objective(self, band: EntropyBand | None = None) -> Objective:
        """Return the objective for the learner.

        Args:
            band: entropy band of the step, from ``smoothing.band``.
        """
        return Objective(
            ratio_level=self.ratio_level,
            clip=(loop_bounds(self.clip_low)[0], loop_bounds(self.clip_high)[1])
            if self.bounds == "loop"
            else ppo_bounds(self.clip_low, self.clip_high),
            kind=self.kind,
            is_mode="none" if self.is_mode == "auto" else self.is_mode,
            is_cap=self.is_cap,
            max_kl=self.max_kl,
            length_normalized=self.length_normalized,
            dual_clip=self.dual_clip,
            is_level=self.is_level,
            is_floor=self.is_floor,
            kl_coef=self.kl.coef if self.kl.where == "loss" else 0.0,
            kl_estimator=self.kl.used,
            entropy_coef=self.entropy_coef,
            band=band,
        )


def correction_for(mode: CorrectionSetting, settings: Mapping[str, Any]) -> Correction:
    """Resolve ``is_mode = auto``: ``tis`` where the policy that samples can differ from the one that learns.

    Servers compute log-probabilities with other kernels, and tokens of overlapped episodes may be older than the
    learner. Truncation keeps every token and bounds its weight; masking would lose the tokens of a stale policy
    altogether (decoupled PPO, arXiv 2505.24298; truncated importance sampling in IMPALA, arXiv 1802.01561).

    Args:
        mode: the setting.
        settings: settings of the run, with ``server`` and ``overlap`` if they are valid.
    """
    if mode != "auto":
        return mode
    overlap = settings.get("overlap")
    return "tis" if settings.get("server") is not None or (overlap is not None and overlap.enabled) else "none"


def objective_loss(scores: Scores, part: Rows, objective: Objective) -> tuple[Tensor, Diagnostics]:
    """Return the *sum* of the objective over the sampled tokens of ``part``, and the kernel's measurements.

    Per token, times its weight: the surrogate of ``policy_loss`` + kl_coef · KL(π ‖ ref) − entropy_coef · H
    + band.coef · (distance of H from the band).
    """
    loss, seen = policy_loss(
        scores.logp,
        part.logp_old,
        part.logp_behave,
        part.advantage,
        part.weight,
        part.mask,
        _segments(part, objective.ratio_level),
        level=objective.ratio_level,
        length_normalized=objective.length_normalized,
        clip=objective.clip,
        kind=objective.kind,
        dual_clip=objective.dual_clip,
        is_mode=objective.is_mode,
        is_cap=objective.is_cap,
        is_floor=objective.is_floor,
        is_index=_segments(part, objective.is_level),
    )
    if not objective.beyond_advantage:
        return loss, seen
    terms, means = _penalties(scores, part, objective)
    sums = {name: (part.weight[part.mask] * term_N) for name, term_N in terms.items()}
    for term_N in sums.values():
        loss = loss + term_N.sum()
    sums = {name: term_N.detach() for name, term_N in sums.items()}
    return loss, replace(seen, means={**seen.means, **means}, sums=sums)


def _penalties(scores: Scores, part: Rows, objective: Objective) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the terms of each sampled token beside its surrogate, by name, and numbers to report; ``[N]`` each."""
    terms: dict[str, Tensor] = {}
    means: dict[str, Tensor] = {}
    entropy_N = scores.entropy[part.mask]
    if objective.needs_reference:
        logp_N, ref_N = scores.logp[part.mask], part.logp_ref[part.mask]
        terms["loss_kl"] = objective.kl_coef * kl_estimate(logp_N, ref_N, objective.kl_estimator)
        means["kl_ref"] = (logp_N - ref_N).detach()
        means["kl_ref_k3"] = kl_estimate(logp_N.detach(), ref_N, "k3")
    if objective.entropy_coef:
        terms["loss_entropy"] = -objective.entropy_coef * entropy_N
    if objective.band is not None:
        distance_N = outside(entropy_N, objective.band)
        terms["loss_band"] = objective.band.coef * distance_N
        means["entropy_outside"] = distance_N.detach() > 0
    return terms, means


def _segments(part: Rows, level: Level) -> Tensor | None:
    return {"token": None, "turn": part.turn, "trajectory": part.episode}[level]
