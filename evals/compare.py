"""Compare two runs: the difference, its uncertainty, and a verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydantic

from ..errors import UsageError
from ..rollouts.episode import FAILURE_RATE, Episode
from ..rollouts.store import run_of
from .attribution import inconclusive
from .formatting import signed
from .statistics import Estimate, mean_over_tasks, mean_return, proportion, square_and_add
from .summary import task_of

Number = Callable[[Episode], float]


@dataclass(frozen=True, slots=True)
class Difference:
    """One quantity in both runs.

    Args:
        name: ``"success"``, ``"return"``, or a level's name.
        a: the first run.
        b: the second run.
        difference: ``b − a``.
        paired: whether both runs played these tasks and the interval uses that.
    """

    name: str
    a: Estimate
    b: Estimate
    difference: Estimate
    paired: bool

    def verdict(self, a: str = "A", b: str = "B", *, points: bool = False) -> str:
        """Describe the difference in words: the better run's lead, or ``b − a`` where neither is shown to be better.

        Args:
            a: the first run's name.
            b: the second run's name.
            points: show percentage points instead of the quantity's own unit.
        """
        shown, unit, digits = (self.difference.scaled(100), " points", 1) if points else (self.difference, "", 2)
        a_better = shown.excludes_zero and shown.value < 0
        shown = shown.scaled(-1) if a_better else shown
        amount = signed(shown.value, digits) + unit
        if shown.low is None or shown.high is None:
            few = "one task says nothing" if shown.n == 1 else f"{shown.n} tasks say too little"
            return f"no verdict: {amount}, but {few} about others"
        interval = f"({signed(shown.low, digits, plus=False)} – {signed(shown.high, digits, plus=False)})"
        if not shown.excludes_zero:
            return f"no difference shown: {amount} {interval}"
        return f"{a if a_better else b} better: {amount} {interval}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two runs.

    Args:
        a: name of the first run, the baseline.
        b: name of the second run.
        success: difference in success.
        mean_return: difference in mean return.
        levels: difference in success, level by level; empty where there is one level only.
        shared_tasks: tasks that both runs played.
        notes: remarks that a reader needs.
        inconclusive: names of the runs whose success is inconclusive because of infrastructure failures.
    """

    a: str
    b: str
    success: Difference
    mean_return: Difference
    levels: tuple[Difference, ...]
    shared_tasks: int
    notes: tuple[str, ...] = ()
    inconclusive: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The headline: a verdict on the difference in success."""
        return self.verdict_on(self.success, points=True)

    def verdict_on(self, difference: Difference, *, points: bool = False) -> str:
        """Return the verdict on one of its differences; empty if a run is inconclusive."""
        if self.inconclusive:
            return f"no verdict: {' and '.join(self.inconclusive)} inconclusive"
        return difference.verdict(self.a, self.b, points=points)

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        data: dict[str, Any] = pydantic.TypeAdapter(Comparison).dump_python(self, mode="json")
        return {**data, "verdict": self.verdict}


def compare(
    a: Iterable[Episode],
    b: Iterable[Episode],
    *,
    names: tuple[str, str] = ("A", "B"),
    confidence: float = 0.95,
    failure_rates: tuple[float, float] = (FAILURE_RATE, FAILURE_RATE),
) -> Comparison:
    """Compare two runs of the same environments.

    If both runs played at least half of the smaller run's tasks, only these are compared, task against task, which
    removes differences in difficulty. Otherwise the runs count as independent samples.

    Args:
        a: the baseline's episodes.
        b: the other run's episodes.
        names: names of the runs, for display.
        confidence: nominal coverage of each interval (not adjusted for their number).
        failure_rates: for each run, the share of the episodes in which the infrastructure may fail.

    Raises:
        UsageError: a run has no scored episode, or the runs have no environment in common.
    """
    played = (_listed(a), _listed(b))
    limited = zip(names, played, failure_rates, strict=True)
    doubts = [(name, why) for name, run, rate in limited if (why := inconclusive(run, rate))]
    runs = tuple(sorted((e for e in run if e.scored), key=lambda e: (*task_of(e), e.episode_id)) for run in played)
    for name, run in zip(names, runs, strict=True):
        if not run:
            raise UsageError(f"run {name} has no scored episode; there is nothing to compare")
    environments = [{e.env_id for e in run} for run in runs]
    if not environments[0] & environments[1]:
        seen = " and ".join(", ".join(sorted(ids)) for ids in environments)
        raise UsageError(f"the runs have no environment in common: {seen}")
    tasks = [{task_of(e) for e in run} for run in runs]
    shared, notes = tasks[0] & tasks[1], []
    paired = 2 * len(shared) >= min(map(len, tasks))
    if paired:
        left_out = len(tasks[0] | tasks[1]) - len(shared)
        runs = tuple([e for e in run if task_of(e) in shared] for run in runs)
        if left_out:
            notes.append(f"compared on the {len(shared)} tasks that both runs played; {left_out} others left out")
    else:
        notes.append(f"the runs share {len(shared)} tasks only, so they are compared as independent samples")
    levels = sorted({e.task.level for e in runs[0]} & {e.task.level for e in runs[1]})
    parts = [[[e for e in run if e.task.level == level] for run in runs] for level in levels]
    return Comparison(
        *names,
        success=_rate("success", _success, *runs, paired=paired, confidence=confidence),
        mean_return=_return("return", *runs, paired=paired, confidence=confidence),
        levels=tuple(
            _rate(f"level {level}", _success, *part, paired=paired, confidence=confidence)
            for level, part in zip(levels, parts, strict=True)
            if len(levels) > 1
        ),
        shared_tasks=len(shared),
        notes=(*notes, *(f"{name} is {why}" for name, why in doubts)),
        inconclusive=tuple(name for name, _ in doubts),
    )


def _listed(run: Iterable[Episode]) -> list[Episode]:
    if isinstance(run, str | Path):
        raise UsageError(f"compare() takes episodes, not folders: load_episodes({str(Path(run, 'episodes'))!r})")
    return list(run)


def check_sources(stores: Mapping[str, Path]) -> None:
    """Refuse stores with different versions of an environment's source; their difference is not only the policies'.

    Args:
        stores: folder of each run's episode store by the run's name.

    Raises:
        UsageError: two runs recorded different sources for the same environment.
    """
    known: dict[str, tuple[str, str]] = {}
    for name, folder in stores.items():
        run = run_of(folder)
        env, source = str(run.get("env")), run.get("env_source")
        if source is None:  # a built-in id fixes its behavior; older stores recorded nothing
            continue
        first, other = known.setdefault(env, (name, source))
        if other != source:
            raise UsageError(
                f"{first} and {name} were played with different versions of {env}: its source changed in between; play "
                "one of them again (turnwise eval … --overwrite)"
            )


def _success(episode: Episode) -> float:
    return float(episode.success)


def _rate(
    name: str, number: Number, a: Sequence[Episode], b: Sequence[Episode], *, paired: bool, confidence: float
) -> Difference:
    """Return the difference of two rates; if paired, with the correlation of their rates per task."""
    one, other = (
        proportion([number(e) for e in run], [task_of(e) for e in run], confidence=confidence) for run in (a, b)
    )
    correlation = _correlation(number, a, b) if paired else 0.0
    return Difference(name, one, other, square_and_add(other, one, correlation=correlation), paired)


def _return(name: str, a: Sequence[Episode], b: Sequence[Episode], *, paired: bool, confidence: float) -> Difference:
    """Return the difference of two mean returns; if paired, from the differences per task.

    Returns of 0 and 1 are compared as success is: their differences are mostly 0, and vary too little for a mean.
    """
    every = (*a, *b)
    if {e.total_reward for e in every} <= {0, 1} and len({task_of(e) for e in every}) > 1:
        return _rate(name, lambda e: e.total_reward, a, b, paired=paired, confidence=confidence)
    one, other = (
        mean_return([e.total_reward for e in run], [task_of(e) for e in run], confidence=confidence) for run in (a, b)
    )
    if not paired:
        return Difference(name, one, other, square_and_add(other, one), paired)
    of_a, of_b = (_per_task(run, lambda e: e.total_reward) for run in (a, b))
    gaps = mean_over_tasks([of_b[task] - of_a[task] for task in of_a], confidence=confidence)
    return Difference(name, one, other, gaps, paired)


def _correlation(number: Number, a: Sequence[Episode], b: Sequence[Episode]) -> float:
    """Return Pearson's correlation of the two runs' rates over tasks, or 0 if either is constant."""
    of_a, of_b = (_per_task(run, number) for run in (a, b))
    pairs = np.array([(of_a[task], of_b[task]) for task in of_a])
    if len(pairs) < 2 or not np.all(pairs.std(axis=0) > 1e-12):
        return 0.0
    return float(np.clip(np.corrcoef(pairs.T)[0, 1], -1.0, 1.0))


def _per_task(run: Sequence[Episode], number: Number) -> dict[Hashable, float]:
    values: dict[Hashable, list[float]] = {}
    for episode in run:
        values.setdefault(task_of(episode), []).append(float(number(episode)))
    return {task: sum(each) / len(each) for task, each in values.items()}
