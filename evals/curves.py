"""Learning curves: ``metrics.jsonl`` of one run, or of several seeds of it, with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..renamed import is_table
from ..tasks.spec import Split
from .statistics import Estimate, student, wilson

METRICS = "metrics.jsonl"
RATES = frozenset({"success", "eval/success"})
"""Metrics that are proportions: they stay in [0, 1], and a single seed has its own interval."""

PER_SEED = frozenset(
    {"seed", "out", "model", "store", "resume", "progress", "tensorboard", "tracking", "threads", "device", "rollouts"}
)
"""Settings in which seeds of one training may differ: locations, also of episodes, and output options."""
START = ("model", "store")
"""Settings among these that name what a run learns from: with another value, a run of the same seed differs."""

NEW_NAMES = {
    "centre": "center",
    "centred": "centered",
    "k": "group_size",
    "length_normalised": "length_normalized",
    "level": "ratio_level",
    "normaliser": "normalizer",
    "pool": "max_tasks",
    "rollouts": "episodes_per_step",
    "sampling": "group_filter",
    "shared": "shared_token_weight",
    "tasks": "tasks_per_step",
}
"""Names of settings that runs of release 0.1 recorded otherwise. Only runs are compared by them, so a name of another
table may be among them."""
NEW_VALUES = {"shared_token_weight": {"once": "split", "each": "full"}}
"""New values of settings, by their former ones."""


@dataclass(frozen=True, slots=True)
class Run:
    """The metrics of one training run.

    Args:
        name: the run folder's name.
        records: one per step, in order; several lines logged for a step form one record.
        eval_episodes: number of episodes of each evaluation, if the run's settings have it.
        algorithm: name of the algorithm, if the run's settings have it.
        kind: key that is equal for runs that differ only in their seed.
        made: date, command, versions and commit, if the run's settings have them.
        eval_split: split of the evaluations, if the run's settings have it.
        seed: seed of the run, if its settings have it.
        start: key that is equal for runs that start from the same model and demonstrations.
    """

    name: str
    records: tuple[dict[str, Any], ...]
    eval_episodes: int | None = None
    algorithm: str = ""
    kind: str = ""
    made: str = ""
    eval_split: str = ""
    seed: int | None = None
    start: str = ""

    def series(self, metric: str) -> dict[int, tuple[float, float, int | None]]:
        """Return, by step, the episodes trained on so far, the metric, and the number of episodes that it averages."""
        seen = accumulate(float(record.get("episodes") or 0) for record in self.records)
        found = {}
        for record, episodes in zip(self.records, seen, strict=True):
            value = record.get(metric)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                found[int(record["step"])] = (episodes, float(value), self._counted(metric, record))
        return found

    def _counted(self, metric: str, record: dict[str, Any]) -> int | None:
        n = record.get("eval/episodes", self.eval_episodes) if metric.startswith("eval/") else record.get("episodes")
        return int(n) if n else None


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve.

    Args:
        step: training step.
        episodes: episodes trained on until then, averaged over seeds.
        estimate: the metric's mean over seeds with its interval.
    """

    step: int
    episodes: float
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric against training.

    Args:
        metric: name in the file, e.g. ``"eval/success"``.
        points: points in order of steps; only steps that every seed has.
        seeds: number of runs that are averaged.
        eval_split: split of the evaluations, if it is known and the same in all runs.
    """

    metric: str
    points: tuple[Point, ...]
    seeds: int
    eval_split: str = ""

    @property
    def by_episodes(self) -> bool:
        """Whether the run counted the episodes that it trained on; cloning a fixed set counts only steps."""
        return any(point.episodes for point in self.points)

    @property
    def held_out(self) -> bool:
        """Whether evaluations measured it, as opposed to training episodes."""
        return self.metric.startswith("eval/")

    @property
    def where(self) -> str:
        """Describe the episodes on which it was measured."""
        if not self.held_out:
            return "training tasks"
        return "training tasks, in evaluations" if self.eval_split == Split.TRAIN else "held-out tasks"


def read_run(path: Path | str) -> Run:
    """Read the metrics in a run's folder, or a ``metrics.jsonl``; a last line that a kill cut short is dropped.

    Raises:
        UsageError: there are no metrics, or a line is not a JSON object with a step.
    """
    file = Path(path) / METRICS if Path(path).is_dir() else Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read metrics {file}: {error.strerror}") from None
    records: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            records.setdefault(int(record["step"]), {}).update(record)
        except (ValueError, TypeError, KeyError):
            if number == len(lines):
                break
            raise UsageError(f"{file}, line {number} is not a JSON object with a step: {line[:60]!r}") from None
    ordered = tuple(records[step] for step in sorted(records))
    return Run(file.parent.name, ordered, **_settings(file.parent / "config.json"))


def curve(runs: Sequence[Run], metric: str, *, confidence: float = 0.95) -> Curve | None:
    """Return one metric over one or several seeds, or ``None`` if no step has it in every run.

    Several seeds: mean and Student's t interval over seeds (the seed is the unit; attempts within it share one
    training). One seed: for a rate, Wilson's interval over its episodes, which says nothing about other seeds.
    """
    series = [run.series(metric) for run in runs]
    steps = sorted(set.intersection(*map(set, series))) if series else []
    points = []
    for step in steps:
        here = [each[step] for each in series]
        values = [value for _, value, _ in here]
        if len(runs) > 1:
            estimate = student(values, confidence=confidence)
        elif metric in RATES and here[0][2]:
            estimate = wilson(min(1.0, max(0.0, values[0])) * here[0][2], here[0][2], confidence=confidence)
        else:
            estimate = Estimate(values[0], None, None, 1, "one seed", confidence)
        points.append(Point(step, sum(x for x, _, _ in here) / len(here), _bounded(estimate, metric)))
    splits = {run.eval_split for run in runs}
    split = splits.pop() if len(splits) == 1 else ""
    return Curve(metric, tuple(points), len(runs), split) if points else None


def _bounded(estimate: Estimate, metric: str) -> Estimate:
    """Clip a rate's interval to [0, 1], which t intervals may exceed."""
    if metric not in RATES or estimate.low is None or estimate.high is None:
        return estimate
    low, high = max(0.0, estimate.low), min(1.0, estimate.high)
    return Estimate(estimate.value, low, high, estimate.n, estimate.method, estimate.confidence)


def _settings(config: Path) -> dict[str, Any]:
    """Return the parts of a run's saved settings that matter for curves; empty without settings."""
    try:
        saved = json.loads(config.read_text(encoding="utf-8"))
        settings, algorithm = dict(saved["config"]), str(saved.get("algorithm", ""))
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    evaluation = settings.get("eval")
    n = evaluation.get("episodes") if isinstance(evaluation, dict) else None
    kind = json.dumps([algorithm, _comparable(settings)], sort_keys=True)
    n = n if isinstance(n, int) and n > 0 else None
    split = str(evaluation.get("split", "")) if isinstance(evaluation, dict) else ""
    about = {"algorithm": algorithm, "kind": kind, "made": _made(saved.get("made"))}
    seed, start = settings.get("seed"), json.dumps([settings.get(name) for name in START])
    seed = seed if isinstance(seed, int) else None
    return about | {"eval_episodes": n, "eval_split": split, "seed": seed, "start": start}


def _made(how: Any) -> str:
    """Describe the last start of a run; empty for a run that did not record it."""
    if not isinstance(how, dict):
        return ""
    used = [f"{name} {version}" for name, version in dict(how.get("versions") or {}).items()]
    used += [f"commit {how['commit']}"] if how.get("commit") else []
    return f"{how.get('date')}: {how.get('command')} ({', '.join(used)})"


def _comparable(settings: Any) -> Any:
    """Return the settings that seeds of one training share, by their present names."""
    if isinstance(settings, list):
        return [_comparable(each) for each in settings]
    if not isinstance(settings, dict):
        return settings
    named = {_new_name(str(key), value): value for key, value in settings.items()}
    kept = {name: value for name, value in named.items() if name not in PER_SEED}
    return {name: _comparable(NEW_VALUES.get(name, {}).get(str(value), value)) for name, value in kept.items()}


def _new_name(key: str, value: Any) -> str:
    """Return the present name of a setting; a table of today may have the former name of a single value."""
    return key if key in PER_SEED and is_table(value) else NEW_NAMES.get(key, key)
