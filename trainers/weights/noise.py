"""Noise between two sides of a canary that have the same weights, and the limit beyond which it is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

FACTOR = 4.0
"""The limit in units of the measured noise. In 16 bits, means of 8 tokens reach about three times the mean of many."""
GROSS = 10.0
"""Gaps beyond so many limits are those of other weights, or of a cache of other weights, and of no precision."""
TAIL = 8.0
"""Limit of the 99th percentile in units of that of the mean, where you set the mean."""
DEVIATIONS = 8.0
"""Standard deviations of noise that a step must have. Half of it, where ``still`` decides, is then four away."""


@dataclass(frozen=True, slots=True)
class Gap:
    """How far log-probabilities of the same tokens differ between two sides, in nats.

    Args:
        mean: mean of the absolute differences.
        rms: root of their mean square.
        p99: their 99th percentile; of fewer than 100 tokens, the largest.
    """

    mean: float = 0.0
    rms: float = 0.0
    p99: float = 0.0

    @classmethod
    def of(cls, differences: Iterable[float]) -> Self:
        """Summarize differences; without any, the gap is 0."""
        found = sorted(abs(each) for each in differences)
        if not found:
            return cls()
        rms = math.sqrt(sum(each * each for each in found) / len(found))
        return cls(sum(found) / len(found), rms, found[math.ceil(0.99 * len(found)) - 1])

    def exceeds(self, limit: Gap) -> bool:
        """Whether the mean or the 99th percentile is beyond a limit; NaN is."""
        return not (self.mean <= limit.mean and self.p99 <= limit.p99)

    def times(self, factor: float) -> Gap:
        """Return a multiple of the gap."""
        return Gap(factor * self.mean, factor * self.rms, factor * self.p99)

    def at_least(self, other: Gap) -> Gap:
        """Return the larger of each number."""
        return Gap(max(self.mean, other.mean), max(self.rms, other.rms), max(self.p99, other.p99))

    def at_most(self, other: Gap) -> Gap:
        """Return the smaller of each number."""
        return Gap(min(self.mean, other.mean), min(self.rms, other.rms), min(self.p99, other.p99))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the differences that a precision causes.

    Args:
        rounding: the least that counts as noise, however little was measured.
        least: the least limit.
        most: the greatest limit: more is not explained by this precision.
    """

    rounding: Gap
    least: Gap
    most: Gap

    @classmethod
    def of(cls, dtypes: Sequence[str], tolerance: float | None = None) -> Self:
        """Return the bounds of the coarsest of some precisions.

        Args:
            dtypes: precisions of weights and arithmetic on both sides.
            tolerance: limit of the mean in nats, instead of a measured one.
        """
        known = max((PRECISIONS[dtype] for dtype in dtypes), key=lambda bounds: bounds.most.mean)
        least, most = known.least, known.most
        if tolerance is not None:
            least = most = Gap(tolerance, TAIL * tolerance, TAIL * tolerance)
        return cls(known.rounding, least, most)


IN_32_BITS = Bounds(Gap(2e-6, 2e-6, 3e-6), Gap(1e-4, 1e-3, 1e-3), Gap(1e-3, 1e-2, 1e-2))
"""Measured between transformers and vLLM on a CPU: 1e-6 to 1e-5."""
IN_16_BITS = Bounds(Gap(3e-3, 5e-3, 2e-2), Gap(2e-2, 0.2, 0.2), Gap(0.3, 2.0, 2.0))
"""Measured at 28 layers and logits of deviation 4: mean 0.04, 99th percentile 0.25; on nano models a tenth of it."""
PRECISIONS = {"float32": IN_32_BITS, "bfloat16": IN_16_BITS}


class Noise:
    """The noise of one run, measured at its first sync, when both sides have the same weights.

    Args:
        bounds: bounds of the precision.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.measured: Gap | None = None

    def calibrate(self, differences: Iterable[float]) -> None:
        """Take the differences of healthy answers as the noise."""
        self.measured = Gap.of(differences)

    @property
    def floor(self) -> Gap:
        """The noise itself."""
        return (self.measured or self.limit.times(1 / FACTOR)).at_least(self.bounds.rounding)

    @property
    def limit(self) -> Gap:
        """The largest gap that counts as noise; before the measurement, all that the precision may do."""
        if self.measured is None:
            return self.bounds.most
        return self.measured.times(FACTOR).at_least(self.bounds.least).at_most(self.bounds.most)

    def gross(self, gap: Gap) -> bool:
        """Whether a gap is beyond everything that numerics do."""
        return not gap.mean <= GROSS * self.limit.mean

    def shows(self, step: Sequence[float]) -> bool:
        """Whether the changes of some log-probabilities are large enough to tell whether they arrived."""
        # The noise of a difference is that of two measurements.
        return math.sqrt(sum(each * each for each in step)) >= DEVIATIONS * math.sqrt(2) * self.floor.rms


def share(theirs: Sequence[float], mine: Sequence[float]) -> float:
    """Return the share of a step that arrived: ⟨theirs, mine⟩ / ⟨mine, mine⟩, which noise hardly changes."""
    return sum(a * b for a, b in zip(theirs, mine, strict=True)) / sum(b * b for b in mine)
