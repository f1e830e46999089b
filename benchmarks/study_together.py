"""The page of several tasks at once: interquartile means, and how many runs reach a score."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from study_config import Study, load_study
from study_curves import draw_profiles
from study_episodes import EQUAL
from study_report import PAGES, newest, place
from study_rows import Row, read_results, table_rows
from study_statistics import FEWEST_SEEDS, aggregate, spread, value_at

from turnwise.evals.statistics import wilson

GROUPS = (("rates-maze", "rates-large", "rates-house"), ("archer-medium", "archer-large", "archer-house"))
"""Tasks of more than five turns on which learners compete, a table each; their scores have the same scale. The first
group's learners have their best rates, and the page shows the profiles of that group."""
THRESHOLDS = (75, 90)
"""Normalized scores of which the page says how many runs end there or above."""
Table = tuple[Study, float, Mapping[str, Row]]
"""A study, its data's mean return, and its rows by the learner's name in the tables of several tasks."""


def write_together(results: Path, docs: Path) -> None:
    """Write the page of ``GROUPS``, with the learners that have enough seeds in all studies of a group.

    Args:
        results: folder of the results of all studies.
        docs: folder of the documentation.
    """
    page = docs / PAGES / "together.md"
    page.parent.mkdir(exist_ok=True)
    parts = [[table_of(name, results / name) for name in names] for names in GROUPS]
    image = page.with_suffix(".png")
    profiles = {name: list(scores_of(parts[0], name).values()) for name in shared_learners(parts[0])}
    draw_profiles("Three tasks, each learner at its best rate", profiles, image)
    first, *others = (group_lines(tables, names) for tables, names in zip(parts, GROUPS, strict=True))
    lines = [*first, "", f"![Share of runs at a score or above, over {len(GROUPS[0])} tasks]({image.name})"]
    for table in others:
        lines += ["", *table]
    place(page, "Three tasks together: ArCHer, PPO and LOOP", "\n".join(lines))


def group_lines(tables: Sequence[Table], names: Sequence[str]) -> list[str]:
    """The table of one group of tasks, with its introduction.

    Args:
        tables: the group's studies.
        names: their names.
    """
    learners = shared_learners(tables)
    budgets = {name: _episodes(tables, name) for name in learners}
    played = [name for name in learners if budgets[name]]
    least = min(budgets[name] for name in played)
    early = max(budgets[name] for name in played) > EQUAL * least
    lines = [
        f"Normalized scores over {', '.join(f'[`{name}`]({name}.md)' for name in names)}, of the learners that have "
        f"at least {FEWEST_SEEDS} seeds in each: 50 is what the offline data reach, 100 is the highest possible. Each "
        "task's interquartile mean over seeds counts alike, with Yuen's interval. The shares are of all runs, with "
        "Wilson's interval, and a run that failed is below."
        + (
            f" After {least:,.0f} episodes, the score is the mean of the last two evaluations during training, and "
            "beside it stands after how many episodes they were made, in the mean."
            if early
            else ""
        ),
        "",
        "| learner | seeds | score (95 %) "
        + (f"| after {least:,.0f} episodes | measured after " if early else "")
        + "| episodes "
        + "".join(f"| at {score} or more " for score in THRESHOLDS)
        + "| CPU s |",
        "|---|---|---|---|" + ("---|---|" if early else "") + "---|" * len(THRESHOLDS) + "---|",
    ]
    return lines + [_line(tables, name, least if early and name in played else None, early=early) for name in learners]


def shared_learners(tables: Sequence[Table]) -> list[str]:
    """Return the learners that have enough seeds in every study, in the order of the first."""
    return [name for name in tables[0][2] if all(_enough(rows.get(name)) for _, _, rows in tables)]


def scores_of(tables: Sequence[Table], name: str) -> dict[str, list[float]]:
    """Return the normalized scores of a learner's runs, by the title of the study."""
    return {
        study.title: [study.normalized(line["return"], dataset) for line in rows[name].lines]
        for study, dataset, rows in tables
    }


def table_of(name: str, folder: Path) -> Table:
    """Read a study's rows, with the mean return of its offline data."""
    study = load_study(name)
    dataset = float(json.loads((folder / "data.json").read_text(encoding="utf-8"))["return"])
    rows = {row.name: row for row in table_rows(study, newest(read_results(folder / "results.jsonl")))}
    chosen = rows | {name: rows[own] for name, own in study.together.items() if own in rows}
    return study, dataset, {name: row for name, row in chosen.items() if name not in study.together.values()}


def _enough(row: Row | None) -> bool:
    return row is not None and len(row.lines) >= FEWEST_SEEDS


def _episodes(tables: Sequence[Table], name: str) -> float:
    """Return the mean number of a learner's episodes."""
    return statistics.fmean(line["episodes"] for _, _, rows in tables for line in rows[name].lines)


def _line(tables: Sequence[Table], name: str, budget: float | None, *, early: bool) -> str:
    """The table's line of one learner; ``budget`` is for the columns of an early score, if there are any."""
    ends = scores_of(tables, name)
    before: dict[str, list[float]] = {}
    after: list[float] = []
    for study, dataset, rows in tables:
        found = [value_at(trace, budget) for trace in rows[name].traces] if budget is not None else []
        before[study.title] = [study.normalized(point[1], dataset) for point in found if point is not None]
        after += [point[0] for point in found if point is not None]
    failed = sum(rows[name].failed for _, _, rows in tables)
    scores = [score for found in ends.values() for score in found]
    seconds = statistics.fmean(line["cpu_seconds_training"] for _, _, rows in tables for line in rows[name].lines)
    shares = [wilson(sum(score >= least for score in scores), len(scores) + failed) for least in THRESHOLDS]
    sooner = [spread(aggregate(before), 1), f"{statistics.fmean(after):,.0f}"] if after else ["–", "–"]
    cells = [
        name,
        " + ".join(str(len(found)) for found in ends.values()) + (f" ({failed} failed)" if failed else ""),
        spread(aggregate(ends), 1),
        *(sooner if early else ()),
        f"{_episodes(tables, name):,.0f}",
        *(f"{share.value:.0%} ({share.low:.0%} … {share.high:.0%})" for share in shares),
        f"{seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |"
