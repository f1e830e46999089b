"""The objective: what one update minimises, as settings and as a sum over the sampled tokens of some rows."""

from __future__ import annotations

from dataclasses import dataclass

import pydantic
from torch import Tensor

from ...config import Config
from .loss import Correction, Diagnostics, Kind, Level, policy_loss, ppo_bounds
from .rows import Rows
from .scoring import Scores


@dataclass(frozen=True, slots=True)
class Objective:
    """The settings of the loss that stay the same over a run, and when an update is refused.

    Args:
        level: what a ratio is taken over.
        clip: bounds of the ratio.
        kind: the surrogate.
        is_mode: correction for a sampler that differs from the trainer.
        is_cap: its cap.
        max_kl: refuse an update, and report it, when the summed KL(old ‖ new) per episode exceeds this.
    """

    level: Level = "token"
    clip: tuple[float, float] = (0.8, 1.2)
    kind: Kind = "ppo"
    is_mode: Correction = "none"
    is_cap: float = 2.0
    max_kl: float | None = None

    @property
    def beyond_advantage(self) -> bool:
        """Whether tokens without advantage have a gradient too: penalties and bonuses are on all that is weighted."""
        return False

    @property
    def needs_entropy_gradient(self) -> bool:
        """Whether the loss differentiates through the entropy."""
        return False


class LossConfig(Config):
    """The loss, as a configuration names it."""

    level: Level = "token"
    """What an importance ratio is taken over: ``token``, ``turn`` or ``trajectory``."""
    kind: Kind = "ppo"
    """The surrogate: ``ppo``, ``cispo`` or ``reinforce``."""
    clip_low: float = pydantic.Field(default=0.2, ge=0, le=1)
    """Ratios below 1 − this are clipped."""
    clip_high: float = pydantic.Field(default=0.2, ge=0)
    """Ratios above 1 + this are clipped; larger than ``clip_low``, rare tokens can become likely (clip-higher)."""
    is_mode: Correction = "none"
    """Correction for a sampler that differs from the trainer: ``none`` or ``tis``."""
    is_cap: float = pydantic.Field(default=2.0, ge=1)
    """Its cap."""
    max_kl: float | None = pydantic.Field(default=None, gt=0)
    """End a step early when the policy has moved this far (KL summed over an episode) from where the step began."""

    def objective(self) -> Objective:
        """What the learner is given."""
        clip = ppo_bounds(self.clip_low, self.clip_high)
        return Objective(self.level, clip, self.kind, self.is_mode, self.is_cap, self.max_kl)


def objective_loss(scores: Scores, part: Rows, objective: Objective) -> tuple[Tensor, Diagnostics]:
    """The *sum* of the objective over the sampled tokens of ``part``, and what the kernel saw."""
    index = {"token": None, "turn": part.turn, "trajectory": part.episode}[objective.level]
    return policy_loss(
        scores.logp,
        part.logp_old,
        part.logp_behave,
        part.advantage,
        part.weight,
        part.mask,
        index,
        level=objective.level,
        clip=objective.clip,
        kind=objective.kind,
        is_mode=objective.is_mode,
        is_cap=objective.is_cap,
    )
