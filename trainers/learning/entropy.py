"""Entropy in the objective: a bonus, and a penalty outside a band around the run's own history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pydantic
from torch import Tensor

from ...config import Config
from .rows import Rows


@dataclass(frozen=True, slots=True)
class EntropyBand:
    """Range of a token's entropy without a penalty.

    Args:
        low: lower edge in nats.
        high: upper edge in nats.
        coef: penalty per nat outside.
    """

    low: float
    high: float
    coef: float


def outside(entropy: Tensor, band: EntropyBand) -> Tensor:
    """Return the distance of each entropy from the band in nats; 0 within. The gradient is ∓1 outside: it leads back.

    EPO (arXiv 2509.22576, eq. 7) charges a flat price α for every token outside. The released penalty is a constant
    where it is not zero, so it has no gradient. This one is proportional to the distance.
    """
    return (band.low - entropy).clamp_min(0) + (entropy - band.high).clamp_min(0)


def phase_weight(progress: float) -> float:
    """Return EPO's weight of the band: 1 at first, 0.8 halfway, 0 at the end of training, and lines in between.

    See arXiv 2509.22576, §4.3; the released pieces are exponentials between the same three points.

    Args:
        progress: share of the run's steps that are done, from 0 to 1.
    """
    done = min(max(progress, 0.0), 1.0)
    return 1 - 0.4 * done if done <= 0.5 else 1.6 * (1 - done)


class SmoothingConfig(Config):
    """EPO's entropy smoothing (arXiv 2509.22576): keep a token's entropy near the mean of the run's steps so far."""

    coef: float = pydantic.Field(default=0.1, gt=0)
    """Penalty per nat outside the band, at the start of the run; it fades to 0.8 of that halfway and 0 at the end."""
    low: float = pydantic.Field(default=0.8, ge=0, le=1)
    """The band's lower edge, as a share of the mean entropy of the steps so far."""
    high: float = pydantic.Field(default=1.2, ge=1)
    """The band's upper edge, likewise."""

    def band(self, history: EntropyHistory, progress: float) -> EntropyBand | None:
        """Return the band of a step; ``None`` without a penalty: before there is a history, and at the very end.

        Args:
            history: entropies of the steps before.
            progress: share of the run's steps that are done, from 0 to 1.
        """
        weight = phase_weight(progress)
        if history.mean is None or weight == 0:
            return None
        return EntropyBand(self.low * history.mean, self.high * history.mean, self.coef * weight)


class EntropyHistory:
    """The mean over steps of the mean entropy of their sampled tokens; checkpoints include it.

    Every step counts the same, however many tokens it had.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.total = 0.0

    @property
    def mean(self) -> float | None:
        """Nats per token; ``None`` before the first step."""
        return self.total / self.steps if self.steps else None

    def record(self, rows: Rows) -> None:
        """Add a step by the entropies in its rows; rows without sampled tokens add none."""
        if rows.tokens:
            self.total += float(rows.entropy[rows.mask].double().mean())
            self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the history."""
        return {"steps": self.steps, "total": self.total}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.steps, self.total = int(state["steps"]), float(state["total"])
