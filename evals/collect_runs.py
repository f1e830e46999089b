"""Find the contents of a report in folders: episode stores, metrics of training runs, and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pydantic

from ..errors import UsageError
from ..rollouts.episode import FAILURE_RATE, Episode
from ..rollouts.store import MANIFEST, load_episodes, run_of
from ..rollouts.store_files import lost_manifest
from .compare import Comparison, compare
from .curves import METRICS, RATES, Curve, Run, curve, read_run
from .lost_episodes import say_lost_episodes
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
        comparison: comparison of two evaluations, if they have an environment in common.
        rankings: rankings of three or more evaluations by environment; one of all environments if any two evaluations
            have one in common.
        trainings: learning curves; runs that differ only in their seed are one training.
        notes: one sentence for each evaluation that is compared with no other.
    """

    title: str
    evaluations: tuple[Evaluation, ...] = ()
    comparison: Comparison | None = None
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    trainings: tuple[Training, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict with all the numbers and none of the episodes."""
        return {
            "title": self.title,
            "evaluations": [{"name": each.name, "summary": each.summary.to_json()} for each in self.evaluations],
            "comparison": self.comparison.to_json() if self.comparison else None,
            "rankings": {environment: ranking.to_json() for environment, ranking in self.rankings.items()},
            "trainings": pydantic.TypeAdapter(tuple[Training, ...]).dump_python(self.trainings, mode="json"),
            "notes": list(self.notes),
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
    return Report(
        title or _title(evaluations, trainings),
        evaluations,
        _comparison(evaluations, confidence),
        _rankings(evaluations, confidence),
        trainings,
        tuple(_not_compared(evaluations)),
    )


def _found(folder: Path, name: str) -> list[Path]:
    """Return the folder itself, or those up to two levels below it, that contain a file ``name``; oldest first."""
    if _contains(folder, name):
        return [folder, *(_below(folder, name, 1) if name != MANIFEST else [])]
    return sorted(_below(folder, name, 2), key=lambda path: (_written(path, name), str(path)))


def _contains(folder: Path, name: str) -> bool:
    """Whether a file is there, or is a manifest that was lost: reading that store says what to do."""
    return (folder / name).is_file() or (name == MANIFEST and bool(lost_manifest(folder)))


def _written(folder: Path, name: str) -> float:
    file = folder / name
    return (file if file.exists() else folder).stat().st_mtime


def _below(folder: Path, name: str, depth: int) -> list[Path]:
    if depth == 0:
        return []
    below = sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in NOT_SEARCHED)
    return [p for path in below for p in ([path] if _contains(path, name) else _below(path, name, depth - 1))]


def _distinct(folders: Sequence[Path]) -> list[Path]:
    """Return each folder once, however often and by whatever path it was found."""
    found: dict[Path, Path] = {}
    for path in folders:
        found.setdefault(path.resolve(), path)
    return list(found.values())


def _names(folders: Sequence[Path]) -> list[str]:
    """Return different names: the folders', with their parents' or the whole path where that is needed."""
    whole = [path.parent if path.name == "episodes" and path.parent.name else path for path in folders]
    names = [path.name for path in whole]
    for longer in ([f"{path.parent.name}/{path.name}" for path in whole], list(map(str, folders))):
        names = [new if names.count(old) > 1 else old for old, new in zip(names, longer, strict=True)]
    return names


def _evaluation(path: Path, name: str, confidence: float) -> Evaluation:
    episodes = tuple(load_episodes(path))
    run = run_of(path)
    policy = policy if isinstance(policy := run.get("policy"), str) else ""
    # Copy notes and origin from the evaluation's own summary; compute the numbers again.
    saved = Summary.load(path.parent / SUMMARY) if (path.parent / SUMMARY).is_file() else None
    notes, planned, made = (saved.notes, saved.planned, saved.made) if saved else ((), None, None)
    lost = say_lost_episodes(path, episodes)
    notes = (*notes, lost) if lost else notes
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


def _rankings(evaluations: Sequence[Evaluation], confidence: float) -> dict[str, Ranking]:
    """Rank three or more evaluations: all in one table if any two share an environment, else in one for each."""
    if len(evaluations) < 3:
        return {}
    rates = {each.name: _failure_rate(each) for each in evaluations}
    environments = list(dict.fromkeys(id for each in evaluations for id in each.summary.env_ids))
    played = {each.name: list(each.episodes) for each in evaluations}
    if all(set(one.summary.env_ids) & set(other.summary.env_ids) for one, other in combinations(evaluations, 2)):
        return {", ".join(environments): rank(played, confidence=confidence, failure_rates=rates)}
    tables = {}
    for environment in environments:
        here = {name: [e for e in episodes if e.env_id == environment] for name, episodes in played.items()}
        judged = {name: episodes for name, episodes in here.items() if any(e.scored for e in episodes)}
        if len(judged) > 1:
            tables[environment] = rank(judged, confidence=confidence, failure_rates=rates)
    return tables


def _comparison(evaluations: Sequence[Evaluation], confidence: float) -> Comparison | None:
    if len(evaluations) != 2:
        return None
    first, last = evaluations
    if not set(first.summary.env_ids) & set(last.summary.env_ids):
        return None
    rates = _failure_rate(first), _failure_rate(last)
    names = (first.name, last.name)
    return compare(first.episodes, last.episodes, names=names, confidence=confidence, failure_rates=rates)


def _not_compared(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    for each in evaluations if len(evaluations) > 1 else ():
        others = {id for other in evaluations if other is not each for id in other.summary.env_ids}
        if not others & set(each.summary.env_ids):
            yield f"Not compared: {each.name} is the only evaluation on {', '.join(each.summary.env_ids)}."


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
