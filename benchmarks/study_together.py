"""The page of several tasks at once: interquartile means, and how many runs reach a score."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from study_config import Study, load_study
from study_report import PAGES, newest, place
from study_rows import Row, read_results, table_rows
from study_statistics import FEWEST_SEEDS, aggregate, spread, value_at

from turnwise.evals.statistics import wilson

STUDIES = ("archer-medium", "archer-large", "archer-house")
"""The tasks of more than five turns on which learners compete; their scores have the same scale."""
THRESHOLDS = (75, 90)
"""Normalized scores of which the page says how many runs end there or above."""
Table = tuple[Study, float, Mapping[str, Row]]
"""A study, its data's mean return, and its rows by learner."""


def write_together(results: Path, docs: Path) -> None:
    """Write the page of ``STUDIES``, with the learners that have enough seeds in all of them.

    Args:
        results: folder of the results of all studies.
        docs: folder of the documentation.
    """
    tables = [table_of(name, results / name) for name in STUDIES]
    learners = [name for name in tables[0][2] if all(_enough(rows.get(name)) for _, _, rows in tables)]
    played = [name for name in learners if _episodes(tables, name)]
    budget = min(_episodes(tables, name) for name in played)
    lines = [
        f"Normalized scores over {', '.join(f'[`{name}`]({name}.md)' for name in STUDIES)}, of the learners that have "
        f"at least {FEWEST_SEEDS} seeds in each: 50 is what the offline data reach, 100 is the highest possible. Each "
        "task's interquartile mean over seeds counts alike, with Yuen's interval. The shares are of all runs, with "
        f"Wilson's interval, and a run that failed is below. After {budget:,.0f} episodes, the score is the mean of "
        "the last two evaluations during training, and beside it stands after how many episodes they were made, in the "
        "mean.",
        "",
        f"| learner | seeds | score (95 %) | after {budget:,.0f} episodes | measured after | episodes "
        + "".join(f"| at {least} or more " for least in THRESHOLDS)
        + "| CPU s |",
        "|---|---|---|---|---|---|" + "---|" * len(THRESHOLDS) + "---|",
    ]
    lines += [_line(tables, name, budget if name in played else None) for name in learners]
    (docs / PAGES).mkdir(exist_ok=True)
    place(docs / PAGES / "together.md", "Three tasks together: ArCHer, PPO and LOOP", "\n".join(lines))


def table_of(name: str, folder: Path) -> Table:
    """Read a study's rows, with the mean return of its offline data."""
    study = load_study(name)
    dataset = float(json.loads((folder / "data.json").read_text(encoding="utf-8"))["return"])
    rows = table_rows(study, newest(read_results(folder / "results.jsonl")))
    return study, dataset, {row.name: row for row in rows}


def _enough(row: Row | None) -> bool:
    return row is not None and len(row.lines) >= FEWEST_SEEDS


def _episodes(tables: Sequence[Table], name: str) -> float:
    """Return the mean number of a learner's episodes."""
    return statistics.fmean(line["episodes"] for _, _, rows in tables for line in rows[name].lines)


def _line(tables: Sequence[Table], name: str, budget: float | None) -> str:
    """The table's line of one learner; without a budget, it plays no episodes."""
    ends, early, after, failed = {}, {}, [], 0
    for key, (study, dataset, rows) in zip(STUDIES, tables, strict=True):
        row = rows[name]
        ends[key] = [study.normalized(line["return"], dataset) for line in row.lines]
        found = [value_at(trace, budget) for trace in row.traces] if budget is not None else []
        early[key] = [study.normalized(point[1], dataset) for point in found if point is not None]
        after += [point[0] for point in found if point is not None]
        failed += row.failed
    scores = [score for found in ends.values() for score in found]
    seconds = statistics.fmean(line["cpu_seconds_training"] for _, _, rows in tables for line in rows[name].lines)
    shares = [wilson(sum(score >= least for score in scores), len(scores) + failed) for least in THRESHOLDS]
    cells = [
        name,
        " + ".join(str(len(found)) for found in ends.values()) + (f" ({failed} failed)" if failed else ""),
        spread(aggregate(ends), 1),
        spread(aggregate(early), 1) if budget is not None else "–",
        f"{statistics.fmean(after):,.0f}" if after else "–",
        f"{_episodes(tables, name):,.0f}",
        *(f"{share.value:.0%} ({share.low:.0%} … {share.high:.0%})" for share in shares),
        f"{seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |"
