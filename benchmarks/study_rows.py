"""The reported runs of a study, by learner, and what is read from a run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import study_plan as plan
from study_config import Curve, Study
from study_plan import Job
from study_ranks import Rank
from study_statistics import Trace

from turnwise.evals.curves import Run


@dataclass(frozen=True, slots=True)
class Clipping:
    """Means over a run's steps.

    Args:
        low: share of tokens whose ratio was clipped from below.
        high: the same from above.
        p99: the 99th percentile of the ratios.
    """

    low: float
    high: float
    p99: float


@dataclass(frozen=True, slots=True)
class Row:
    """One learner's reported runs.

    Args:
        name: name of the learner.
        value: value of the swept setting.
        lines: its results, by seed.
        traces: its curves, in the same order.
        clips: clipping of its ratios, in the same order; ``None`` without clipping.
        ranks: measurements of its critics, in the same order; empty where none was measured.
        failed: number of seeds that failed.
    """

    name: str
    value: float | None
    lines: tuple[Mapping[str, Any], ...]
    traces: tuple[Trace, ...]
    clips: tuple[Clipping | None, ...]
    ranks: tuple[tuple[Rank, ...], ...]
    failed: int


def job_of(line: Mapping[str, Any]) -> Job:
    """Return the run that a line of results or of readings belongs to."""
    return Job(line["learner"], line["digest"], line["value"], line["seed"])


def measured_run(line: Mapping[str, Any]) -> tuple[Job, str]:
    """Return the run of a line, and the digest of its final measurement."""
    return job_of(line), line["measure"]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a JSON Lines file, none if it is absent; a line cut short by a kill is left out."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(text))
    return found


def read_results(path: Path) -> list[dict[str, Any]]:
    """Return the finished runs of a file, the last line of each run and measurement."""
    return list({measured_run(line): line for line in read_lines(path)}.values())


def table_rows(study: Study, results: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the reported runs of every learner whose sweep has finished, in the study's order."""
    by_job = {job_of(one): one for one in results}
    outcomes = {job: line["return"] for job, line in by_job.items()}
    rows = []
    for learner in study.learner:
        value = plan.chosen(study, learner.name, outcomes)
        if isinstance(value, str):
            continue
        mark = plan.digest(study, learner.name)
        jobs = sorted(
            (j for j in by_job if (j.learner, j.digest, j.value) == (learner.name, mark, value)), key=lambda j: j.seed
        )
        jobs = [job for job in jobs if job.seed < plan.SWEEP_SEED]
        done = [job for job in jobs if outcomes[job] is not None]
        if jobs:
            lines = tuple(by_job[job] for job in done)
            traces = tuple([(episodes, value) for episodes, value in line["curve"]] for line in lines)
            clips = tuple(Clipping(**line["clipped"]) if line["clipped"] else None for line in lines)
            ranks = tuple(tuple(Rank(**rank) for rank in line.get("ranks", ())) for line in lines)
            rows.append(Row(learner.name, value, lines, traces, clips, ranks, len(jobs) - len(done)))
    return rows


def trace_of(run: Run, curve: Curve = "return") -> Trace:
    """The curve of a run: its evaluations of this number."""
    return [(episodes, value) for episodes, value, _ in run.series(f"eval/{curve}").values()]


def clipping_of(run: Run) -> Clipping | None:
    """Return how often a run clipped its ratios."""
    means = [[value for _, value, _ in run.series(name).values()] for name in ("clip_low", "clip_high", "ratio_p99")]
    return Clipping(*map(statistics.fmean, means)) if all(means) else None
