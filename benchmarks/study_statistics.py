"""What a study's numbers are reduced to: when a return was first reached, and how two learners compare."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnwise.evals.bootstrap import bootstrap
from turnwise.evals.statistics import Estimate

Trace = Sequence[tuple[float, float]]
"""A learning curve: environment episodes so far, and the mean return of an evaluation then."""


@dataclass(frozen=True, slots=True)
class Reach:
    """When a run first reached a return.

    Args:
        episodes: environment episodes until then; all it had, if it never did: a lower bound.
        reached: whether it did.
    """

    episodes: float
    reached: bool


def reach(trace: Trace, threshold: float) -> Reach:
    """The first evaluation of a curve at or above a threshold; no smoothing, no interpolation."""
    for episodes, value in trace:
        if value >= threshold:
            return Reach(episodes, True)
    return Reach(trace[-1][0] if trace else 0.0, False)


def ratio_of_medians(slow: Sequence[float], fast: Sequence[float]) -> Estimate:
    """How many times the episodes: medians over seeds divided, each side's seeds resampled on their own."""
    values = np.array([*slow, *fast], dtype=float)
    sides = ["slow"] * len(slow) + ["fast"] * len(fast)

    def ratio(places: Any) -> float:
        chosen = places.astype(int)
        first = chosen < len(slow)
        below = float(np.median(values[chosen[~first]]))
        return float(np.median(values[chosen[first]])) / max(below, 1.0)  # nobody needs fewer than one episode

    return bootstrap(range(len(values)), ratio, strata=sides, method="percentile")


def improvement(slow: Sequence[float], fast: Sequence[float]) -> Estimate:
    """How often a seed of the one has a higher return than a seed of the other (Agarwal et al., arXiv 2108.13264)."""
    values = np.array([*slow, *fast], dtype=float)
    sides = ["slow"] * len(slow) + ["fast"] * len(fast)

    def often(places: Any) -> float:
        chosen = places.astype(int)
        first, second = values[chosen[chosen < len(slow)]], values[chosen[chosen >= len(slow)]]
        above, equal = second[:, None] > first[None, :], second[:, None] == first[None, :]
        return float((above + 0.5 * equal).mean())

    return bootstrap(range(len(values)), often, strata=sides, method="percentile")


def aggregate(scores: Mapping[str, Sequence[float]]) -> Estimate:
    """The mean over tasks of the mean over seeds; seeds are resampled within each task (arXiv 2108.13264)."""
    values = np.array([value for task in scores.values() for value in task], dtype=float)
    tasks = np.array([name for name, task in scores.items() for _ in task])

    def mean(places: Any) -> float:
        chosen = places.astype(int)
        return statistics.fmean(float(values[chosen[tasks[chosen] == name]].mean()) for name in scores)

    return bootstrap(range(len(values)), mean, strata=list(tasks), method="percentile")


def censored(column: Sequence[Reach]) -> bool:
    """Whether the median of the episodes rests on runs that never arrived, so that it is a lower bound."""
    middle = statistics.median(one.episodes for one in column)
    return any(not one.reached and one.episodes <= middle for one in column)
