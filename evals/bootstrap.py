"""Bootstrap intervals: percentile and BCa, over tasks (clusters) and within strata."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np

from .statistics import Estimate, Floats, Ints, checked, grouped, mean, same_length, some

Statistic = Callable[[Floats], float]
Method = Literal["percentile", "bca"]


def bootstrap(
    values: Sequence[float],
    statistic: Statistic = mean,
    *,
    clusters: Sequence[Hashable] | None = None,
    strata: Sequence[Hashable] | None = None,
    method: Method = "bca",
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Compute a statistic with a bootstrap interval; a pure function of its arguments.

    Percentile: the quantiles of the statistic over resamples. BCa corrects them for bias and skew: Efron (1987),
    JASA 82:171-185, with the acceleration from the jackknife (several strata: Davison and Hinkley 1997, §5.3.2).

    Args:
        values: one number per attempt.
        statistic: function from the values, in any order, to a number.
        clusters: the task of each value; whole clusters are resampled.
        strata: the stratum of each value; resampling keeps the number of clusters in each. A cluster that has
            members in two strata counts as two.
        method: ``"percentile"`` or ``"bca"``.
        resamples: number of resamples.
        confidence: nominal coverage.
        seed: seed of the resampling.

    Raises:
        UsageError: there are no values, or lengths differ.
    """
    names: Sequence[Hashable] | None = clusters
    if strata is not None:
        same_length(values, strata)
        inner: Sequence[Hashable] = clusters if clusters is not None else range(len(values))
        same_length(values, inner)
        names = list(zip(strata, inner, strict=True))
    x, members = grouped(values, names)
    some(x)
    layers = _layers(members, strata)
    value, units = statistic(x), len(members)
    if all(len(layer) < 2 for layer in layers):
        return Estimate(value, None, None, units, "unknown", checked(confidence))
    draws = _draws(x, members, layers, statistic, resamples, np.random.default_rng(seed))
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _bca_tails(x, members, layers, statistic, value, draws, tails)
    low, high = np.quantile(draws, tails)
    return Estimate(value, float(low), float(high), units, f"bootstrap {method}".replace("bca", "BCa"), confidence)


def _draws(
    x: Floats,
    members: list[Ints],
    layers: list[list[int]],
    statistic: Statistic,
    resamples: int,
    rng: np.random.Generator,
) -> Floats:
    """Return ``statistic`` of each resample, shape ``(resamples,)``. Means need no copies of the data."""
    picks = np.concatenate(
        [np.array(layer)[rng.integers(len(layer), size=(resamples, len(layer)))] for layer in layers], 1
    )
    if statistic is mean:
        sums, sizes = (np.array([part(x[m]) for m in members], dtype=float) for part in (np.sum, len))
        return np.asarray(sums[picks].sum(1) / sizes[picks].sum(1))
    return np.array([statistic(x[np.concatenate([members[c] for c in pick])]) for pick in picks])


def _bca_tails(
    x: Floats,
    members: list[Ints],
    layers: list[list[int]],
    statistic: Statistic,
    value: float,
    draws: Floats,
    tails: Floats,
) -> Floats:
    """Return the quantiles that BCa uses instead of ``tails``."""
    from scipy import special

    below = (np.sum(draws < value) + np.sum(draws <= value)) / (2 * len(draws))
    if not 0 < below < 1:
        return tails
    bias = special.ndtri(below)
    cubes = squares = 0.0
    for layer in (layer for layer in layers if len(layer) > 1):
        left_out = np.array([statistic(np.delete(x, members[c])) for c in layer])
        influence = (len(layer) - 1) * (left_out.mean() - left_out) / len(layer)
        cubes += float(np.sum(influence**3))
        squares += float(np.sum(influence**2))
    spread = 6 * squares**1.5  # also 0 if the squares of small differences underflow
    acceleration = cubes / spread if spread > 0 else 0.0
    shifted = bias + special.ndtri(tails)
    return np.asarray(special.ndtr(bias + shifted / (1 - acceleration * shifted)))


def _layers(members: list[Ints], strata: Sequence[Hashable] | None) -> list[list[int]]:
    """Return the indices of each stratum's clusters."""
    if strata is None:
        return [list(range(len(members)))]
    layers: dict[Hashable, list[int]] = {}
    for number, cluster in enumerate(members):
        layers.setdefault(strata[int(cluster[0])], []).append(number)
    return list(layers.values())
