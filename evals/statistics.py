"""Estimates with intervals: proportions, means, pass@k and pass^k.

Attempts at one task resemble one another, so wherever several attempts share a task the *task* is the unit that is
counted ("clusters" below). Treating every attempt as independent would make intervals too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..rollouts.stats import wilson_interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FEWEST_TASKS = 12
"""Fewer tasks get no interval of a mean: over five, a "95 %" interval of skewed values covers 90 %, over eight 92 %."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its uncertainty.

    Args:
        value: the point estimate.
        low: lower end of the interval; ``None`` if the data cannot determine it (a single task, for a mean).
        high: upper end of the interval.
        n: number of independent units (tasks, seeds) behind it.
        method: method of the interval, in a word or two.
        confidence: the nominal coverage.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    method: str
    confidence: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies wholly on one side of zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate in another unit, e.g. ``100`` for percent; a negative factor swaps the ends."""
        ends = (self.low, self.high) if factor > 0 else (self.high, self.low)
        low, high = (None if end is None else end * factor for end in ends)
        return Estimate(self.value * factor, low, high, self.n, self.method, self.confidence)


# -- proportions ----------------------------------------------------------------------------------------------------


def wilson(successes: float, n: float, *, confidence: float = 0.95) -> Estimate:
    """Compute a proportion with Wilson's score interval; see ``wilson_interval``.

    Args:
        successes: number of successes; may be fractional (an effective count).
        n: number of trials; may be fractional.
        confidence: nominal coverage, in (0, 1).

    Raises:
        UsageError: ``n`` is not positive, or ``successes`` is not in [0, n].
    """
    if not n > 0:
        raise UsageError("there are no scored episodes to compute a proportion of")
    if not 0 <= successes <= n:
        raise UsageError(f"{successes} successes out of {n} is not a proportion")
    z = normal_quantile(checked(confidence))
    low, high = wilson_interval(successes, n, z)
    return Estimate(successes / n, low, high, math.floor(n), "Wilson", confidence)


def proportion(
    values: Sequence[bool] | Sequence[float], clusters: Sequence[Hashable] | None = None, *, confidence: float = 0.95
) -> Estimate:
    """Compute a success rate with an interval that allows for several attempts at one task.

    With one value per cluster this is ``wilson``. Otherwise Wilson's interval is computed with the effective sample
    size ``n / deff``: the design effect ``deff`` is the cluster-robust variance of the rate over its binomial one
    (Kish 1965, *Survey Sampling*, §5.4), and degrees of freedom are corrected by ``(z/t)²`` as in Korn and Graubard
    (1998), Survey Methodology 24:193-201. Dean and Pagano (2015), J. Surv. Stat. Methodol. 3:484-503, found Wilson
    with an effective sample size to cover well. If all attempts agree, nothing shows how similar attempts at one task
    are, and each task counts once.

    Args:
        values: success of each attempt.
        clusters: task of each attempt; if omitted, every attempt is independent.
        confidence: nominal coverage.
    """
    x, members = grouped(values, clusters)
    n, groups = len(x), len(members)
    if n and not np.all((x >= 0) & (x <= 1)):
        raise UsageError("success must be a number between 0 and 1")
    rate = float(x.mean()) if n else math.nan
    if groups == n:
        return wilson(float(x.sum()), n, confidence=confidence)
    if groups == 1 or rate in (0.0, 1.0):
        effective = float(groups)
    else:
        residuals = np.array([float((x[m] - rate).sum()) for m in members])
        robust = groups / (groups - 1) * float((residuals**2).sum()) / n**2
        binomial = rate * (1 - rate) / n
        freedom = (normal_quantile(confidence) / student_quantile(confidence, groups - 1)) ** 2
        effective = min(float(n), n * binomial / robust if robust > 0 else float(n)) * freedom
        effective = max(effective, min(1.0, float(n)))
    inner = wilson(rate * effective, effective, confidence=confidence)
    return Estimate(rate, inner.low, inner.high, groups, "Wilson over tasks", confidence)


def square_and_add(one: Estimate, other: Estimate, *, correlation: float = 0.0) -> Estimate:
    """Compute ``one − other`` with an interval recovered from the two intervals.

    ``lower = d − √(l₁² − 2ρ l₁u₂ + u₂²)``, ``upper = d + √(u₁² − 2ρ u₁l₂ + l₂²)``, where ``l`` and ``u`` are the
    distances from each estimate to its ends. For two Wilson intervals and ``ρ = 0`` this is method 10 of Newcombe
    (1998), Stat. Med. 17:873-890; for paired data with ``ρ`` the correlation within pairs it is the construction of
    Newcombe (1998), Stat. Med. 17:2635-2650 (without its continuity correction of ρ); in general, MOVER of Zou and
    Donner (2008), Stat. Med. 27:1693-1702.

    Args:
        one: minuend.
        other: subtrahend, with the same confidence.
        correlation: correlation of the two estimates, in [-1, 1]; 0 for independent samples.
    """
    if not -1 <= correlation <= 1:
        raise UsageError(f"correlation {correlation} is not in [-1, 1]")
    difference, n = one.value - other.value, min(one.n, other.n)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Estimate(difference, None, None, n, "unknown", one.confidence)

    def distance(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * correlation * a * b + b * b))

    low = difference - distance(one.value - one.low, other.high - other.value)
    high = difference + distance(one.high - one.value, other.value - other.low)
    name = "Newcombe" if one.method.startswith("Wilson") else "square-and-add"
    return Estimate(difference, low, high, n, f"{name}, paired" if correlation else name, one.confidence)


# -- means ----------------------------------------------------------------------------------------------------------


def mean(values: Floats) -> float:
    """Return the arithmetic mean."""
    return float(np.mean(values))


def student(values: Sequence[float], *, confidence: float = 0.95) -> Estimate:
    """Return the mean of a few independent values (e.g. seeds) with Student's t interval."""
    x, _ = grouped(values, None)
    if len(some(x)) < 2:
        return Estimate(mean(x), None, None, len(x), "unknown", checked(confidence))
    reach = student_quantile(confidence, len(x) - 1) * float(x.std(ddof=1)) / math.sqrt(len(x))
    return Estimate(mean(x), mean(x) - reach, mean(x) + reach, len(x), "Student's t", confidence)


def mean_return(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, *, confidence: float = 0.95
) -> Estimate:
    """Compute a mean return: a ``proportion`` if every return is 0 or 1, and a ``mean_over_tasks`` otherwise.

    Where nine returns of ten are 1 and the rest 0, the interval of a mean over ten tasks covers 65 % instead of 95: a
    third of such samples do not vary at all. A single task shows neither which returns there are nor how they vary.

    Args:
        values: return of each attempt.
        clusters: task of each attempt; if omitted, every attempt is independent.
        confidence: nominal coverage.
    """
    if set(values) <= {0, 1} and len(values if clusters is None else set(clusters)) > 1:
        return proportion(values, clusters, confidence=confidence)
    return mean_over_tasks(values, clusters, confidence=confidence)


def mean_over_tasks(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    confidence: float = 0.95,
    fewest: int = FEWEST_TASKS,
) -> Estimate:
    """Compute a mean with an interval that allows for several attempts at one task, and for skewed values.

    The variance is the cluster-robust one, ``s² = G/(G−1) Σ_g r_g² / n²`` over G tasks and n attempts, where ``r_g`` is
    the sum of a task's residuals (Kish 1965, *Survey Sampling*, §6.3). Returns are skewed, and Student's interval of
    ten skewed values covers 90 % instead of 95. So its ends go through the cubic transformation of Hall (1992), J. R.
    Stat. Soc. B 54:221-228: with the skewness γ of the ``r_g`` and a quantile t of G − 1 degrees of freedom, they are
    ``x̄ − s√G·h(±t/√G)``, where ``h(y) = 3/γ · (∛(1 + γ(y − γ/6G)) − 1)``. Without skew, that is Student's.

    Args:
        values: one number per attempt.
        clusters: task of each attempt; if omitted, every attempt is independent.
        confidence: nominal coverage.
        fewest: least number of tasks to compute an interval from, 2 or more.

    Raises:
        UsageError: there are no values, they are not finite, or lengths differ.
    """
    x, members = grouped(values, clusters)
    value, tasks = mean(some(x)), len(members)
    if tasks < fewest:
        return Estimate(value, None, None, tasks, "too few tasks", checked(confidence))
    residuals = np.array([float((x[m] - value).sum()) for m in members])
    deviation = math.sqrt(float((residuals**2).mean()))
    # Standardized before the cube, which of tiny residuals would be 0 divided by 0.
    skew = float(((residuals / deviation) ** 3).mean()) if deviation > 0 else 0.0
    spread = math.sqrt(tasks / (tasks - 1)) * deviation * tasks / len(x)
    reach = student_quantile(confidence, tasks - 1) / math.sqrt(tasks)
    low, high = (value - spread * _unskewed(end, skew, tasks) for end in (reach, -reach))
    return Estimate(value, low, high, tasks, "Hall's t over tasks", confidence)


def _unskewed(y: float, skew: float, n: int) -> float:
    if abs(skew) < 1e-6:
        return y
    return 3 / skew * (math.cbrt(1 + skew * (y - skew / (6 * n))) - 1)


# -- several attempts at one task -----------------------------------------------------------------------------------


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Return the probability that at least one of ``k`` attempts succeeds: ``1 − C(n−c, k) / C(n, k)``, unbiased.

    Chen et al. (2021), *Evaluating Large Language Models Trained on Code*, eq. 1.
    """
    _check_k(attempts, successes, k)
    return 1.0 - math.comb(attempts - successes, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Return the probability that all of ``k`` attempts succeed, unbiased: ``C(c, k) / C(n, k)``, called pass^k.

    Yao et al. (2024), *τ-bench*, §3 (reliability over repeated trials).
    """
    _check_k(attempts, successes, k)
    return math.comb(successes, k) / math.comb(attempts, k)


# -- quantiles ------------------------------------------------------------------------------------------------------


def normal_quantile(confidence: float) -> float:
    """Return ``z`` such that a standard normal lies in ``[-z, z]`` with this probability."""
    from scipy import special  # imported here: it takes 0.3 s, and many commands compute no interval

    return float(special.ndtri((1 + checked(confidence)) / 2))


def student_quantile(confidence: float, freedom: int) -> float:
    """Return ``t`` such that Student's t with ``freedom`` degrees lies in ``[-t, t]`` with this probability."""
    from scipy import special

    return float(special.stdtrit(freedom, (1 + checked(confidence)) / 2))


# -- checks ---------------------------------------------------------------------------------------------------------


def checked(confidence: float) -> float:
    """Return ``confidence`` if it is a probability, or raise ``UsageError``."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence {confidence} is not between 0 and 1")
    return confidence


def _check_k(attempts: int, successes: int, k: int) -> None:
    if not 1 <= k <= attempts:
        raise UsageError(f"k = {k} needs at least {k} attempts at every task; there are {attempts}")
    if not 0 <= successes <= attempts:
        raise UsageError(f"{successes} successes out of {attempts} attempts is impossible")


def same_length(values: Sequence[float], labels: Sequence[Hashable]) -> None:
    """Raise ``UsageError`` unless there is one label per value."""
    if len(labels) != len(values):
        raise UsageError(f"there are {len(values)} values but {len(labels)} labels: each value needs one")


def some(x: Floats) -> Floats:
    """Return ``x`` if it has values and all are finite, or raise ``UsageError``."""
    if not len(x):
        raise UsageError("there are no scored episodes to compute a statistic of")
    if not np.all(np.isfinite(x)):
        raise UsageError("a statistic needs finite values")
    return x


def grouped(values: Sequence[float], clusters: Sequence[Hashable] | None) -> tuple[Floats, list[Ints]]:
    """Return the values as an array, and for each cluster (in order of appearance) the positions of its members."""
    x = np.asarray(values, dtype=np.float64)
    if clusters is None:
        return x, [np.array([i]) for i in range(len(x))]
    same_length(values, clusters)
    positions: dict[Hashable, list[int]] = {}
    for position, cluster in enumerate(clusters):
        positions.setdefault(cluster, []).append(position)
    return x, [np.array(members) for members in positions.values()]
