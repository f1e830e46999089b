"""Comparisons that stop when they are decided: a group-sequential test of the paired returns of two learners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import study_plan as plan
from numpy.typing import NDArray
from study_config import Study
from study_plan import Outcomes

FLIPS = 20_000
"""Number of sign vectors that stand for all of them."""
SEQUENTIAL = (
    "Comparisons that stop when they are decided, with the error of all of them together bounded. Where one stops "
    "early, its difference is overestimated, in the mean."
)
"""Text before the table of decisions."""


@dataclass(frozen=True, slots=True)
class Decision:
    """How far a comparison of two learners has come.

    Args:
        seeds: number of seeds that it needs now, or was decided with.
        difference: mean of the paired differences of returns, the second learner's minus the first's; ``None`` before
            the first look.
        decided: whether the returns differ.
    """

    seeds: int
    difference: float | None
    decided: bool


@lru_cache(maxsize=1)
def sign_vectors(length: int) -> NDArray[np.float64]:
    """Return ``FLIPS`` random sign vectors, always the same ones; the first is what was observed."""
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(FLIPS, length))
    signs[0] = 1.0
    return signs


@lru_cache(maxsize=256)
def crossed(differences: tuple[float, ...], looks: tuple[int, ...], last: int, alpha: float) -> bool:
    """Whether paired differences cross the boundary of their newest look.

    If two learners are alike, each seed's difference has either sign with equal probability, whatever the others are.
    So the sum at a look is compared with the sums of random signs that crossed no earlier boundary. Error is spent in
    proportion to the seeds, as AdaStop spends it per look (Mathieu et al., arXiv 2306.10882, section 4). AdaStop
    permutes unpaired runs; here a pair starts from one clone.

    Args:
        differences: one per seed so far, in order; their number is the newest look.
        looks: numbers of seeds of all looks up to now.
        last: number of seeds of the last look.
        alpha: probability of a decision between equal learners, over all looks.
    """
    sums = np.cumsum(sign_vectors(last)[:, : len(differences)] * np.asarray(differences), axis=1)
    out = np.zeros(FLIPS, dtype=bool)
    for look in looks:
        found = np.abs(sums[:, look - 1])
        allowed = int(alpha * look / last * FLIPS) - int(out.sum())
        ranked = np.sort(found[~out])[::-1]
        boundary = ranked[allowed] if allowed > 0 else math.inf
        out |= found > boundary * (1 + 1e-12)  # equal sums differ in their last digits
    return bool(out[0])


def decision(study: Study, pair: tuple[str, str], outcomes: Outcomes) -> Decision:
    """How far one of the study's sequential comparisons has come.

    Args:
        study: a study with ``sequential``.
        pair: names of two learners.
        outcomes: the finished runs.
    """
    rules = study.sequential
    assert rules is not None, "the study has no [sequential]"
    alpha = rules.alpha / len(rules.pairs)
    jobs = [plan.reported(study, name, 0, outcomes) for name in pair]
    found: list[float] = []
    for at, look in enumerate(rules.looks):
        for seed in range(len(found), look):
            first, second = (None if job is None else outcomes.get(replace(job, seed=seed)) for job in jobs)
            if first is None or second is None:  # not finished, or failed: nothing is decided without it
                return Decision(look, _mean(found), decided=False)
            found.append(second - first)
        if crossed(tuple(found), tuple(rules.looks[: at + 1]), rules.looks[-1], alpha):
            return Decision(look, _mean(found), decided=True)
    return Decision(rules.looks[-1], _mean(found), decided=False)


def seeds_needed(study: Study, name: str, outcomes: Outcomes) -> int | None:
    """Return how many seeds a learner's comparisons need now; ``None`` if it is in none."""
    pairs = study.sequential.pairs if study.sequential else []
    return max((decision(study, pair, outcomes).seeds for pair in pairs if name in pair), default=None)


def decision_table(study: Study, outcomes: Outcomes) -> list[str]:
    """One line per sequential comparison: which learner returns more, and after how many seeds that was decided."""
    lines = ["| comparison | result | difference of returns |", "|---|---|---|"]
    for first, second in study.sequential.pairs if study.sequential else ():
        found = decision(study, (first, second), outcomes)
        if found.difference is None:
            continue
        better = second if found.difference > 0 else first
        result = f"{better} returns more, after {found.seeds} seeds" if found.decided else "not decided"
        lines.append(f"| {second} and {first} | {result} | {found.difference:+.2f} |")
    return lines if len(lines) > 2 else []


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
