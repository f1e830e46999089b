"""Whether a critic ranks utterances: the rank correlation of Q with measured returns within each state.

Explained variance says little about it. Most of the variance of Q is that of the state (how late it is, how lost),
which an advantage subtracts again. What steers the actor is the order of the utterances within one state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class Ranking:
    """A mean rank correlation within states.

    Args:
        mean: mean over the states that say anything; NaN without one.
        error: standard error of the mean, from the spread between states, but at least that of random judgements: few
            states may agree by luck. NaN below two states.
        states: number of states that say something.
        silent: number of states left out: with one utterance only, or with equal returns after all of them.
    """

    mean: float
    error: float
    states: int
    silent: int

    def metrics(self) -> dict[str, float]:
        """Return the numbers to log."""
        return {
            "critic/rank": self.mean,
            "critic/rank_error": self.error,
            "critic/rank_states": float(self.states),
            "critic/rank_silent": float(self.silent),
        }


def ranking(judged: Sequence[Sequence[float]], measured: Sequence[Sequence[float]]) -> Ranking:
    """Return the mean of Kendall's τ-b within each state.

    States in which all measured values are equal are left out and counted: no order is right or wrong there. A critic
    that judges all utterances of a state alike has a correlation of 0 there, since it does not rank what differs.

    Args:
        judged: the critic's values of the utterances in each state.
        measured: measured values of the same utterances, such as mean returns.
    """
    pairs = [(mine, theirs) for mine, theirs in zip(judged, measured, strict=True) if max(theirs) > min(theirs)]
    found = [kendall(mine, theirs) for mine, theirs in pairs]
    count, silent = len(found), len(measured) - len(found)
    if not found:
        return Ranking(math.nan, math.nan, 0, silent)
    mean = sum(found) / count
    if count < 2:
        return Ranking(mean, math.nan, count, silent)
    spread = sum((each - mean) ** 2 for each in found) / (count - 1)
    chance = sum(chance_variance(theirs) for _, theirs in pairs) / count
    return Ranking(mean, math.sqrt(max(spread, chance) / count), count, silent)


def chance_variance(measured: Sequence[float]) -> float:
    """Return the variance of Kendall's τ-b when the other ranking is random and has no ties.

    Without ties among k values it is 2(2k + 5) / 9k(k − 1): 1 for two of them. At least two must differ.
    """
    sizes, count = Counter(measured).values(), len(measured)
    pairs = math.comb(count, 2)
    untied = pairs - sum(math.comb(size, 2) for size in sizes)
    agreed = count * (count - 1) * (2 * count + 5) - sum(size * (size - 1) * (2 * size + 5) for size in sizes)
    return agreed / 18 / (pairs * untied)


def kendall(one: Sequence[float], other: Sequence[float]) -> float:
    """Kendall's τ-b: concordant less discordant pairs, over √(pairs untied in one · pairs untied in the other).

    Kendall, "The treatment of ties in ranking problems" (Biometrika 33, 1945). It is 0 where one of the two is
    constant.
    """
    agreed = untied_one = untied_other = 0
    for (mine, theirs), (my_next, their_next) in combinations(zip(one, other, strict=True), 2):
        up, there = (my_next > mine) - (my_next < mine), (their_next > theirs) - (their_next < theirs)
        agreed += up * there
        untied_one += up != 0
        untied_other += there != 0
    return agreed / math.sqrt(untied_one * untied_other) if untied_one and untied_other else 0.0
