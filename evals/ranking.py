"""Rank three or more runs: a table, and every pair with jointly valid intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pydantic

from ..errors import UsageError
from ..rollouts.episode import FAILURE_RATE, Episode
from .compare import Comparison, compare
from .formatting import plain, success, success_interval
from .statistics import Estimate
from .summary import summarise

HEADINGS = ("run", "success", "interval", "return", "episodes", "tasks", "shown better than")
"""Column headings of a ranking's table."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One run of a ranking.

    Args:
        name: name of the run.
        success: share of scored episodes solved, with its own interval.
        mean_return: undiscounted return, with its own interval.
        episodes: scored episodes.
        tasks: different tasks among them.
        beats: names of the runs over which its success is significantly better.
        shown: success in words, and its interval; no number if the infrastructure failed too often.
    """

    name: str
    success: Estimate
    mean_return: Estimate
    episodes: int
    tasks: int
    beats: tuple[str, ...]
    shown: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Several runs, by success.

    Args:
        runs: runs, best first, inconclusive ones last.
        pairs: every pair of runs in the order of ``runs``; the better one second, so that differences are gains.
        confidence: minimum probability that the intervals of all pairs' success hold at once.
    """

    runs: tuple[Ranked, ...]
    pairs: tuple[Comparison, ...]
    confidence: float

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The runs under the headings ``HEADINGS``, as text."""
        return [
            (
                run.name,
                *run.shown,
                plain(run.mean_return.value),
                f"{run.episodes:,}",
                f"{run.tasks:,}",
                ", ".join(run.beats),
            )
            for run in self.runs
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks that a reader needs, including those on single pairs."""
        return (self.note, *(f"{pair.b} against {pair.a}: {note}" for pair in self.pairs for note in pair.notes))

    @property
    def note(self) -> str:
        """How the intervals of the pairs were adjusted."""
        each = _each(self.confidence, len(self.pairs))
        return (
            f"Differences are paired by task where runs share tasks. All {len(self.pairs)} intervals of success hold "
            f"together with {100 * self.confidence:g} % confidence (Bonferroni: {100 * each:.4g} % each)."
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        runs = pydantic.TypeAdapter(tuple[Ranked, ...]).dump_python(self.runs, mode="json")
        return {"runs": runs, "pairs": [pair.to_json() for pair in self.pairs], "confidence": self.confidence}


def rank(
    runs: Mapping[str, Iterable[Episode]],
    *,
    confidence: float = 0.95,
    failure_rates: Mapping[str, float] | None = None,
) -> Ranking:
    """Rank runs of the same environment by success.

    Every pair is compared as ``compare`` does, at a confidence of ``1 − (1 − confidence) / pairs``: by Bonferroni's
    inequality all intervals then hold at once with ``confidence``.

    Args:
        runs: episodes by the name of the run; at least two runs.
        confidence: confidence of all pairs together.
        failure_rates: for each name of a run, the share of the episodes in which the infrastructure may fail.

    Raises:
        UsageError: there are fewer than two runs, or ``compare`` refuses a pair.
    """
    played = {name: list(episodes) for name, episodes in runs.items()}
    if len(played) < 2:
        raise UsageError(f"a ranking needs at least two runs; got {', '.join(played) or 'none'}")
    rates = {name: (failure_rates or {}).get(name, FAILURE_RATE) for name in played}
    summaries = {n: summarise(e, confidence=confidence, failure_rate=rates[n]) for n, e in played.items()}
    order = sorted(played, key=lambda name: summaries[name].rank_key)
    couples = list(combinations(order, 2))
    each = _each(confidence, len(couples))
    pairs = tuple(
        compare(
            played[worse],
            played[better],
            names=(worse, better),
            confidence=each,
            failure_rates=(rates[worse], rates[better]),
        )
        for better, worse in couples
    )
    shown = {(pair.b, pair.a) for pair in pairs if pair.success.difference.excludes_zero and not pair.inconclusive}
    ranked = tuple(
        Ranked(
            name=name,
            success=summaries[name].success,
            mean_return=summaries[name].mean_return,
            episodes=summaries[name].scored,
            tasks=summaries[name].tasks,
            beats=tuple(other for other in order if (name, other) in shown),
            shown=(success(summaries[name]), success_interval(summaries[name])),
        )
        for name in order
    )
    return Ranking(ranked, pairs, confidence)


def _each(confidence: float, pairs: int) -> float:
    """Return the confidence of one interval for joint ``confidence`` of all, by Bonferroni's inequality."""
    return 1 - (1 - confidence) / pairs
