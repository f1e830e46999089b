"""Statistics of a study: when a return was first reached, and how two learners compare."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnwise.evals.statistics import Estimate, student, student_quantile

FEWEST_SEEDS = 5
"""Fewer seeds get no interval: 95 % intervals of the bootstrap cover 52 % over two seeds and 70 % over three."""
Z = statistics.NormalDist().inv_cdf(0.975)
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


def smoothed(trace: Trace) -> Trace:
    """Return a curve whose points are the mean of an evaluation and its neighbors: an evaluation alone is noise."""
    values = [value for _, value in trace]
    return [(x, statistics.fmean(values[max(at - 1, 0) : at + 2])) for at, (x, _) in enumerate(trace)]


def reach(trace: Trace, threshold: float) -> Reach | None:
    """Return when a smoothed curve first reached a threshold, without interpolation.

    A noisy learner would otherwise arrive at its first lucky evaluation. A run that starts there has reached nothing:
    it is left out (``None``), since 0 episodes would make ratios infinite.
    """
    if trace and trace[0][1] >= threshold:
        return None
    for episodes, value in smoothed(trace)[1:]:
        if value >= threshold:
            return Reach(episodes, True)
    return Reach(trace[-1][0] if trace else 0.0, False)


def value_at(trace: Trace, episodes: float) -> tuple[float, float] | None:
    """Return after how many episodes the last two evaluations within a number of them were made, and their value.

    Both are means. How far the evaluations stop short of the number depends on how often a run is evaluated.
    ``None`` before the first.
    """
    within = [point for point in trace if point[0] <= episodes][-2:]
    return (statistics.fmean(x for x, _ in within), statistics.fmean(y for _, y in within)) if within else None


def over_seeds(values: Sequence[float], least: float = -math.inf, most: float = math.inf) -> Estimate:
    """Return the mean over seeds with Student's t interval; without an interval below ``FEWEST_SEEDS``.

    Args:
        values: a value per seed.
        least: lowest possible value, where the interval ends; a value below it moves that end.
        most: highest possible value, likewise.
    """
    found = student(values)
    if len(values) < FEWEST_SEEDS or found.low is None or found.high is None:
        return replace(found, low=None, high=None, method="too few seeds")
    return replace(found, low=max(found.low, min(least, *values)), high=min(found.high, max(most, *values)))


def median(values: Sequence[float]) -> Estimate:
    """Return the median with an interval between order statistics (Hettmansperger and Sheather, 1986).

    Over five values the interval is their range, and covers 93.75 %: no interval of order statistics covers more.
    """
    middle, n = statistics.median(values), len(values)
    if n < FEWEST_SEEDS:
        return Estimate(middle, None, None, n, "too few seeds")
    low, high = order_interval(values)
    return Estimate(middle, low, high, n, "order statistics")


def median_reach(column: Sequence[Reach]) -> Estimate:
    """Return the median of the episodes; runs that never arrived have no upper bound, so the upper end may be infinite.

    With the ends of their budgets in their place, an interval would end there and never cover a later median.
    """
    found = median([one.episodes for one in column])
    if found.high is None:
        return found
    return replace(found, high=order_interval([one.episodes if one.reached else math.inf for one in column])[1])


def order_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the interval of ``median``; of values without a bound, an end may be infinite."""
    ordered, n = sorted(values), len(values)
    covers = [1 - 2 * sum(math.comb(n, k) for k in range(d)) / 2**n for d in range(n // 2 + 1)]
    d = max((at for at in range(1, len(covers)) if covers[at] >= 0.95), default=0)
    if d == 0:
        return ordered[0], ordered[-1]
    inner = (covers[d] - 0.95) / (covers[d] - (covers[d + 1] if d + 1 < len(covers) else 0.0))
    share = (n - d) * inner / (d + (n - 2 * d) * inner)
    low = ordered[d - 1] if share == 0 else (1 - share) * ordered[d - 1] + share * ordered[d]
    high = ordered[n - d] if share == 0 else (1 - share) * ordered[n - d] + share * ordered[n - d - 1]
    return low, high


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the episodes of the faster learner the slower one needs: the median over pairs of one seed.

    Both runs of a pair should start from the same clone (``study_clones.py`` says where they do not). A run that never
    arrived bounds the ratio of its pair on one side only, so the median and the ends of its interval may be bounds
    themselves.

    Args:
        least: lower bound of the median; 0 if there is none.
        most: upper bound of the median; infinite if there is none.
        low: lower end of its interval; ``None`` below ``FEWEST_SEEDS`` pairs.
        high: upper end of its interval, which may be infinite.
        pairs: number of pairs.
    """

    least: float
    most: float
    low: float | None
    high: float | None
    pairs: int

    def __str__(self) -> str:
        if self.least == self.most:
            text = f"{self.least:.1f}"
        elif math.isinf(self.most):
            text = f"≥ {self.least:.1f}" if self.least else "–"
        else:
            text = f"{self.least:.1f} … {self.most:.1f}" if self.least else f"≤ {self.most:.1f}"
        if self.low is None or self.high is None or text == "–":
            return text
        return f"{text} ({self.low:.1f} … {'∞' if math.isinf(self.high) else f'{self.high:.1f}'})"


def paired_ratio(pairs: Sequence[tuple[Reach, Reach]]) -> Ratio:
    """Return the median ratio of the episodes of pairs of runs, the slower learner's first; at least one pair."""
    least, most = [], []
    for slow, fast in pairs:
        ratio = slow.episodes / max(fast.episodes, 1.0)  # at least one episode is needed
        least.append(ratio if fast.reached else 0.0)
        most.append(ratio if slow.reached else math.inf)
    middle = statistics.median(least), statistics.median(most)
    if len(pairs) < FEWEST_SEEDS:
        return Ratio(*middle, None, None, len(pairs))
    return Ratio(*middle, order_interval(least)[0], order_interval(most)[1], len(pairs))


def improvement(slow: Sequence[float], fast: Sequence[float]) -> Estimate:
    """How often a seed of the one has a higher return than a seed of the other (Agarwal et al., arXiv 2108.13264).

    With Newcombe's score interval for the Mann-Whitney statistic (Statistics in Medicine 25, 2006, method 5). The
    bootstrap's excluded no difference in 27 % of studies of two seeds without one, and has no width where all of one
    side are above the other.
    """
    m, n = len(slow), len(fast)
    share = sum((b > a) + 0.5 * (b == a) for a in slow for b in fast) / (m * n)
    if min(m, n) < FEWEST_SEEDS:
        return Estimate(share, None, None, m + n, "too few seeds")

    def inside(truth: float) -> bool:
        pairs = (m + n) / 2 - 1
        spread = truth * (1 - truth) * (1 + pairs * ((1 - truth) / (2 - truth) + truth / (1 + truth))) / (m * n)
        return abs(truth - share) <= Z * math.sqrt(spread)

    def limit(outside: float) -> float:
        within = share
        for _ in range(60):
            middle = (within + outside) / 2
            within, outside = (middle, outside) if inside(middle) else (within, middle)
        return within

    return Estimate(share, limit(0.0), limit(1.0), m + n, "Newcombe")


def aggregate(scores: Mapping[str, Sequence[float]]) -> Estimate:
    """The mean over tasks of each task's interquartile mean over seeds; tasks are fixed, seeds are drawn.

    The lowest and the highest quarter of a task's seeds are left out, rounded down, as Agarwal et al. (arXiv
    2108.13264) recommend. The interval is Yuen's for trimmed means (Biometrika 61, 1974), with Welch's freedom.
    """
    samples = [sorted(sample) for sample in scores.values()]
    cuts = [len(sample) // 4 for sample in samples]
    kept = [sample[cut : len(sample) - cut] for sample, cut in zip(samples, cuts, strict=True)]
    mean = statistics.fmean(map(statistics.fmean, kept))
    seeds = sum(map(len, samples))
    if min(map(len, samples)) < FEWEST_SEEDS:
        return Estimate(mean, None, None, seeds, "too few seeds")
    parts = []
    for sample, inner, cut in zip(samples, kept, cuts, strict=True):
        winsorized = [inner[0]] * cut + inner + [inner[-1]] * cut
        parts.append(statistics.variance(winsorized) * (len(sample) - 1) / (len(inner) * (len(inner) - 1)))
    error = math.sqrt(sum(parts)) / len(samples)
    free = sum(part**2 / (len(inner) - 1) for part, inner in zip(parts, kept, strict=True))
    freedom = sum(parts) ** 2 / free if free else math.inf
    width = student_quantile(0.95, max(int(freedom), 1)) * error if error else 0.0
    return Estimate(mean, mean - width, mean + width, seeds, "Yuen")


def censored(column: Sequence[Reach]) -> bool:
    """Whether the median of the episodes rests on runs that never arrived, so that it is a lower bound."""
    most = statistics.median(one.episodes if one.reached else math.inf for one in column)
    return most > statistics.median(one.episodes for one in column)


def spread(estimate: Estimate, digits: int) -> str:
    """An estimate with its interval, e.g. ``-12.30 (-13.10 … -11.50)``; an end may be ``∞``."""
    text = f"{estimate.value:,.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return text
    high = "∞" if math.isinf(estimate.high) else f"{estimate.high:,.{digits}f}"
    return f"{text} ({estimate.low:,.{digits}f} … {high})"
