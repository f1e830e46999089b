"""Find the contents of a report in folders: episode stores, metrics of training runs, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pydantic

from ..errors import UsageError
from ..rollouts.episode import FAILURE_RATE, Episode
from ..rollouts.store import MANIFEST, load_episodes, run_of
from .compare import Comparison, compare
from .curves import METRICS, RATES, Curve, Run, curve, read_run
from .ranking import Ranking, rank
from .seeds import SeedGroup, seed_groups
from .summary import SUMMARY, Summary, summarise

CURVES = ("success", "return", "turns")
"""Quantities whose curves a report shows, on training tasks and (with the prefix ``eval/``) on held-out ones."""
DIAGNOSTICS = {
    "loss": "loss",
    "entropy": "entropy, nats per token",
    "kl_k3": "KL from the sampling policy (k3), nats per token",
    "clip_low": "share of tokens clipped below",
    "clip_high": "share of tokens clipped above",
    "ess": "effective sample size, share of the batch",
    "grad_norm": "gradient norm",
    "cut_actions": "share of actions cut at the token limit",
}
"""Metrics that describe how a training went, and their names in a report."""
NOT_SEARCHED = frozenset({"checkpoints", "demonstrations", "model", "tensorboard", "training_episodes"})
"""Folders of a training run that contain no evaluation."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One run of episodes.

    Args:
        name: name for display.
        summary: summary of its episodes.
        episodes: all episodes.
    """

    name: str
    summary: Summary
    episodes: tuple[Episode, ...]


@dataclass(frozen=True, slots=True)
class Training:
    """Curves of one training run, or of several seeds of it.

    Args:
        algorithm: name of the algorithm; empty if unknown.
        names: the runs' folders.
        curves: curves on held-out and training tasks by quantity (``"success"``).
        diagnostics: curves by label (``"gradient norm"``).
        made: how each run was produced, if that is known.
        repeats: one sentence for each run that is left out because it repeats the seed of another.
    """

    algorithm: str
    names: tuple[str, ...]
    curves: dict[str, tuple[Curve, ...]]
    diagnostics: dict[str, Curve]
    made: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Heading of the training: ``"loop, 5 seeds"``."""
        what = self.algorithm or self.names[0]
        return f"{what}, {len(self.names)} seeds" if len(self.names) > 1 else what


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a report shows.

    Args:
        title: heading of the report.
        evaluations: runs of episodes.
        comparison: comparison of the first and the last evaluation, if there are two of one environment.
        ranking: ranking of all evaluations in place of a comparison, if there are three or more of one environment.
        trainings: learning curves; runs that differ only in their seed are one training.
    """

    title: str
    evaluations: tuple[Evaluation, ...] = ()
    comparison: Comparison | None = None
    ranking: Ranking | None = None
    trainings: tuple[Training, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict with all the numbers and none of the episodes."""
        return {
            "title": self.title,
            "evaluations": [{"name": each.name, "summary": each.summary.to_json()} for each in self.evaluations],
            "comparison": self.comparison.to_json() if self.comparison else None,
            "ranking": self.ranking.to_json() if self.ranking else None,
            "trainings": pydantic.TypeAdapter(tuple[Training, ...]).dump_python(self.trainings, mode="json"),
        }


def collect_runs(sources: Sequence[Path | str], *, title: str | None = None, confidence: float = 0.95) -> Report:
    """Find everything to report.

    Args:
        sources: folders, each an episode store, a training run, or a folder of several such.
        title: heading of the report (default: made from the environments and policies).
        confidence: nominal coverage of intervals.

    Raises:
        UsageError: a folder does not exist, nothing is in it, or no episode is scored.
    """
    stores: list[Path] = []
    metrics: list[Path] = []
    for source in map(Path, sources):
        if not source.is_dir():
            raise UsageError(f"there is no folder {source}; name a run's folder or an episode store")
        stores_here, metrics_here = _found(source, MANIFEST), _found(source, METRICS)
        if not stores_here and not metrics_here:
            raise UsageError(f"there is nothing to report in {source}: no episode store and no {METRICS} with numbers")
        stores += stores_here
        metrics += metrics_here
    stores, metrics = _distinct(stores), _distinct(metrics)
    names = _names(stores)
    evaluations = tuple(_evaluation(s, n, confidence) for s, n in zip(stores, names, strict=True))
    runs = [replace(read_run(path), name=name) for path, name in zip(metrics, _names(metrics), strict=True)]
    trainings = _trainings(runs, confidence)
    if not evaluations and not trainings:
        where = ", ".join(map(str, sources))
        raise UsageError(f"there is nothing to report in {where}: no episode store and no {METRICS} with numbers")
    ranking = _ranking(evaluations, confidence)
    return Report(
        title or _title(evaluations, trainings),
        evaluations,
        _comparison(evaluations, confidence) if ranking is None else None,
        ranking,
        trainings,
    )


def _found(folder: Path, name: str) -> list[Path]:
    """Return the folder itself, or those up to two levels below it, that contain a file ``name``; oldest first."""
    if (folder / name).is_file():
        return [folder, *(_below(folder, name, 1) if name != MANIFEST else [])]
    return sorted(_below(folder, name, 2), key=lambda path: ((path / name).stat().st_mtime, str(path)))


def _below(folder: Path, name: str, depth: int) -> list[Path]:
    if depth == 0:
        return []
    below = sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in NOT_SEARCHED)
    return [p for path in below for p in ([path] if (path / name).is_file() else _below(path, name, depth - 1))]


def _distinct(folders: Sequence[Path]) -> list[Path]:
    """Return each folder once, however often and by whatever path it was found."""
    return list({path.resolve(): path for path in reversed(folders)}.values())[::-1]


def _names(stores: Sequence[Path]) -> list[str]:
    """Return the folders' names, with their parents' if that is needed to distinguish them or is more informative."""
    short = [path.parent.name if path.name == "episodes" and path.parent.name else path.name for path in stores]
    return [f"{p.parent.name}/{p.name}" if short.count(n) > 1 else n for n, p in zip(short, stores, strict=True)]


def _evaluation(path: Path, name: str, confidence: float) -> Evaluation:
    episodes = tuple(load_episodes(path))
    run = run_of(path)
    policy = policy if isinstance(policy := run.get("policy"), str) else ""
    # Copy notes and origin from the evaluation's own summary; compute the numbers again.
    saved = Summary.load(path.parent / SUMMARY) if (path.parent / SUMMARY).is_file() else None
    notes, planned, made = (saved.notes, saved.planned, saved.made) if saved else ((), None, None)
    summary = summarise(episodes, policy=policy, confidence=confidence, notes=notes, planned=planned, made=made)
    return Evaluation(name, summary, episodes)


def _trainings(runs: Sequence[Run], confidence: float) -> tuple[Training, ...]:
    """Group the seeds of one training, and keep different trainings separate."""
    return tuple(t for t in (_training(group, confidence) for group in seed_groups(runs)) if t is not None)


def _training(group: SeedGroup, confidence: float) -> Training | None:
    runs, curves = group.runs, {}
    for quantity in CURVES:
        both = (curve(runs, name, confidence=confidence) for name in (f"eval/{quantity}", quantity))
        found = tuple(c for c in both if c is not None and (len(c.points) > 1 or c.held_out))
        if found:
            curves[quantity] = found
    named = ((title, curve(runs, name, confidence=confidence)) for name, title in DIAGNOSTICS.items())
    diagnostics = {title: c for title, c in named if c is not None and len(c.points) > 1}
    if not curves and not diagnostics:
        return None
    made = tuple(f"{run.name}, {run.made}" for run in runs if run.made)
    names = tuple(run.name for run in runs)
    return Training(runs[0].algorithm, names, curves, diagnostics, made, tuple(group.repeats))


def _ranking(evaluations: Sequence[Evaluation], confidence: float) -> Ranking | None:
    """Rank three or more evaluations, if every two of them have an environment in common."""
    environments = [set(each.summary.env_ids) for each in evaluations]
    if len(evaluations) < 3 or not all(one & other for one, other in combinations(environments, 2)):
        return None
    rates = {each.name: _failure_rate(each) for each in evaluations}
    return rank({each.name: each.episodes for each in evaluations}, confidence=confidence, failure_rates=rates)


def _comparison(evaluations: Sequence[Evaluation], confidence: float) -> Comparison | None:
    if len(evaluations) < 2:
        return None
    first, last = evaluations[0], evaluations[-1]
    if not set(first.summary.env_ids) & set(last.summary.env_ids):
        return None
    rates = _failure_rate(first), _failure_rate(last)
    names = (first.name, last.name)
    return compare(first.episodes, last.episodes, names=names, confidence=confidence, failure_rates=rates)


def _failure_rate(each: Evaluation) -> float:
    """Return the failure rate of the evaluation's settings."""
    settings = each.summary.made.settings if each.summary.made else {}
    return float(settings.get("failure_rate", FAILURE_RATE))


def _title(evaluations: Sequence[Evaluation], trainings: Sequence[Training]) -> str:
    if not evaluations:
        return f"Training: {', '.join(training.title for training in trainings)}"
    environments = ", ".join(dict.fromkeys(id for each in evaluations for id in each.summary.env_ids))
    policies = ", ".join(dict.fromkeys(each.summary.policy for each in evaluations if each.summary.policy))
    return f"{policies} on {environments}" if policies else environments


def is_rate(quantity: str) -> bool:
    """Whether a quantity is a share of one."""
    return quantity in RATES
