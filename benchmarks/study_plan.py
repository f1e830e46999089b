"""The runs of a study, and which of them can start: pure functions, so that they can be tested."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from study_config import LearnerConfig, Study
from study_ranks import SCRIPT

from turnwise.evals.curves import NEW_NAMES, NEW_VALUES

HERE = Path(__file__).resolve().parent
CONFIGS = HERE.parent / "configs"
SWEEP_SEED = 100
"""The first seed of a sweep: far from the seeds that are reported, which start at 0."""
FILES = "{files}"
"""In settings, the folder of the files that a study's example writes: digests do not depend on where it is."""
FIRST_NAMES = {new: old for old, new in NEW_NAMES.items()}
FIRST_VALUES = {name: {new: old for old, new in values.items()} for name, values in NEW_VALUES.items()}
FIRST_SCRIPTS = {"behavior_cloning": "behaviour_cloning"}
"""Names of scripts and settings in the digests of kept results."""


@dataclass(frozen=True, slots=True)
class Job:
    """One training run with its measurement.

    Args:
        learner: name of the learner.
        digest: digest of all its settings except ``value`` and ``seed``; other settings make another run.
        value: value of the swept setting; ``None`` for learners that are not swept.
        seed: seed of the run.
    """

    learner: str
    digest: str
    value: float | None
    seed: int

    @property
    def folder(self) -> Path:
        """Its folder, below the study's folder."""
        value = "default" if self.value is None else f"{self.value:g}"
        return Path(f"{self.learner}-{self.digest}", value, f"seed-{self.seed}")

    def __str__(self) -> str:
        value = "" if self.value is None else f" at {self.value:g}"
        return f"{self.learner}{value}, seed {self.seed}"


Outcomes = Mapping[Job, float | None]
"""The mean return that each finished run was measured at; ``None`` where the run failed."""


def measuring_seed(study: Study, seed: int) -> int:
    """Return the seed of tasks and luck with which the run of a seed is measured."""
    return study.measure.seed if seed < SWEEP_SEED else study.measure.sweep_seed


def digest(study: Study, name: str) -> str:
    """Eight hex digits of everything that a learner's run depends on, besides the swept value and the seed.

    Scripts and settings have the names of release 0.1 in it, so that a new name does not make another run.
    """
    learner = study[name]
    path = config_path(learner)
    shipped = tomllib.loads(path.read_text(encoding="utf-8")) if path else {}
    parts: dict[str, Any] = {
        "script": FIRST_SCRIPTS.get(learner.script, learner.script),
        "config": first_names(shipped),
        "env": [study.env, study.levels, study.env_kwargs],
        "settings": first_names(study.shared | learner.settings),
        "swept": learner.swept,
        "data": study.data.described if learner.data else None,
        "after": digest(study, learner.after) if learner.after else None,
    }
    if learner.control is not None:  # other learners keep the digests that they have
        parts["control"] = learner.control
    if is_ranked(study, name):
        parts["rank"] = study.rank.model_dump() if study.rank else None
    if learner.teacher is not None:
        parts["teacher"] = digest(study, learner.teacher)
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:8]


def is_ranked(study: Study, name: str) -> bool:
    """Whether a learner has a critic that the study measures."""
    return study.rank is not None and study[name].script == SCRIPT


def first_names(settings: Any) -> Any:
    """Return settings, however nested, with the names and values that they had in release 0.1."""
    if isinstance(settings, list):
        return [first_names(each) for each in settings]
    if not isinstance(settings, dict):
        return settings
    values = {name: FIRST_VALUES.get(name, {}).get(str(value), value) for name, value in settings.items()}
    return {FIRST_NAMES.get(name, name): first_names(value) for name, value in values.items()}


def config_path(learner: LearnerConfig) -> Path | None:
    """The configuration that a learner starts from."""
    return CONFIGS / f"{learner.config}.toml" if learner.config else None


def words(study: Study, job: Job, outcomes: Outcomes, *, root: Path) -> list[str]:
    """The command line of a run's training script; ``root`` is the study's folder."""
    learner = study[job.learner]
    settings = flat({"episodes": {"env_kwargs": study.env_kwargs}}) | flat(study.shared | learner.settings)
    settings["env"] = study.env
    settings |= {"seed": job.seed, "out": str(root / job.folder / "run"), "threads": 1}
    settings |= {"progress": False, "tracking.to": []}
    if study.levels is not None:
        settings["levels"] = study.levels
    path = config_path(learner)
    if study.rank is not None and is_ranked(study, job.learner):
        settings |= flat({"critic_gate": study.rank.gate(study.shared | learner.settings, path)})
    if learner.data:
        reader = "branching" if "branching" in learner.settings else "demonstrations"
        settings[f"{reader}.store"] = str(root / data_folder(study))
    for setting, other in (("model", learner.after), ("algorithm.teacher", learner.teacher)):
        if other is not None:
            before = reported(study, other, job.seed, outcomes)
            assert before is not None, f"{job} was started before what it starts from"
            settings[setting] = str(root / before.folder / "run" / "model")
    if learner.swept is not None and job.value is not None:
        settings[learner.swept] = job.value
    settings = with_files(settings, study, root)
    return [
        *(["--config", str(path)] if path else []),
        *(f"{key}={json.dumps(value)}" for key, value in settings.items()),
    ]


def data_folder(study: Study) -> str:
    """The name of the folder with the study's offline data: other data have another name."""
    text = json.dumps([study.env, study.levels, study.env_kwargs, study.data.described])
    return f"data-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def files_folder(study: Study) -> str:
    """The name of the folder with the files that the study's example writes, beside the data."""
    return f"{data_folder(study)}-files"


def with_files(settings: Mapping[str, Any], study: Study, root: Path) -> dict[str, Any]:
    """Return settings, however nested, with the folder of the example's files for ``{files}``."""

    def filled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: filled(each) for key, each in value.items()}
        return value.replace(FILES, str(root / files_folder(study))) if isinstance(value, str) else value

    return {key: filled(value) for key, value in settings.items()}


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as ``table.key``."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def choose(scores: Mapping[float, Sequence[float | None]]) -> float | None:
    """The rule of the sweep: the value with the best mean return; of equals the smaller; a failed run is the worst.

    Args:
        scores: return of each seed, by value; ``None`` for a run that failed.

    Returns:
        The value, or ``None`` if every value had a run that failed.
    """
    means = {v: -math.inf if None in found else statistics.fmean(map(_number, found)) for v, found in scores.items()}
    best = min(means, key=lambda value: (-means[value], value))
    return best if means[best] > -math.inf else None


def swept_jobs(study: Study, name: str) -> dict[float, list[Job]]:
    """The runs of a learner's sweep, by value. Those of an ablation are of the learner it is like."""
    learner = study[name]
    if learner.like is not None:
        return swept_jobs(study, learner.like)
    if learner.swept is None or study.sweep is None:
        return {}
    mark = digest(study, name)
    seeds = range(SWEEP_SEED, SWEEP_SEED + study.sweep.seeds)
    return {value: [Job(name, mark, value, seed) for seed in seeds] for value in study.sweep.values}


State = Literal["open", "impossible"]


def chosen(study: Study, name: str, outcomes: Outcomes) -> float | State | None:
    """Return the swept value of a learner's reported runs; ``"open"`` before its sweep has finished."""
    sweep = swept_jobs(study, name)
    if not sweep:
        return None
    if any(job not in outcomes for jobs in sweep.values() for job in jobs):
        return "open"
    best = choose({value: [outcomes[job] for job in jobs] for value, jobs in sweep.items()})
    return "impossible" if best is None else best


def reported(study: Study, name: str, seed: int, outcomes: Outcomes) -> Job | None:
    """The run of a learner at its chosen value, if that is known."""
    value = chosen(study, name, outcomes)
    return None if isinstance(value, str) else Job(name, digest(study, name), value, seed)


def ready(study: Study, names: Sequence[str], seeds: Sequence[int], outcomes: Outcomes) -> list[Job]:
    """The runs that can start now and are not finished, the most urgent first, so that ``names`` have all ``seeds``."""
    found: dict[Job, None] = {}
    for name in names:
        own = study[name].seeds
        for seed in seeds:
            if own is None or seed < own:
                found |= dict.fromkeys(_towards(study, name, seed, outcomes))
    return list(found)


def _towards(study: Study, name: str, seed: int, outcomes: Outcomes) -> Iterator[Job]:
    value = chosen(study, name, outcomes)
    if value == "impossible":
        return
    if value == "open":
        for jobs in swept_jobs(study, name).values():
            for job in jobs:
                yield from _start(study, job, outcomes)
        return
    assert not isinstance(value, str)
    yield from _start(study, Job(name, digest(study, name), value, seed), outcomes)


def _start(study: Study, job: Job, outcomes: Outcomes) -> Iterator[Job]:
    if job in outcomes:
        return
    for other in (study[job.learner].after, study[job.learner].teacher):
        if other is None:
            continue
        before = reported(study, other, job.seed, outcomes)
        if before is None or before not in outcomes:
            yield from _towards(study, other, job.seed, outcomes)
            return
        if outcomes[before] is None:
            return  # nothing to start from; the report says which runs are missing
    yield job


def _number(value: float | None) -> float:
    assert value is not None
    return value
