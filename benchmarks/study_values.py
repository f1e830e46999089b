"""How much of the variance of returns a learner's values explain, for the tables of a study."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from study_rows import Row
from study_statistics import over_seeds, spread

from turnwise.evals.curves import Run

EXPLAINED = ("value_explained", "critic/explained")
"""The metric of learners with token values, and of ArCHer; each before it learns from the step's episodes."""
VALUES = (
    "How much of their targets' variance the values explain before they learn from them, over the last two thirds of "
    "a run's steps. Where nearly all episodes of a step end alike, there is next to no variance to explain. Such a "
    "step can pull a mean far below 0, so the table has the median step. Runs before November 29 kept the mean alone. "
    "The targets of ArCHer's V are returns to go. Where a limit cuts an episode off, V of the last state is a part of "
    "them. Targets depend on the discount, and so does this share: compare learners with one discount only."
)
"""Text before the table."""
MEDIAN, MEAN = "explained_median", "explained"
"""Keys of a line with the share that the values explain in the median step, and in the mean of steps."""


def explained_of(run: Run) -> dict[str, float | None]:
    """Return the share that a run's values explain, by key of a line, over the last two thirds of its steps."""
    for name in EXPLAINED:
        if values := [value for _, value, _ in run.series(name).values()]:
            late = values[len(values) // 3 :]
            return {MEDIAN: statistics.median(late), MEAN: statistics.fmean(late)}
    return {MEDIAN: None, MEAN: None}


def explained_table(rows: Sequence[Row]) -> list[str]:
    """Of each learner with values, the share that they explain: the mean over seeds."""
    lines = ["| learner | over the steps | explained (95 %) |", "|---|---|---|"]
    for row in rows:
        shares = {key: [line[key] for line in row.lines if line.get(key) is not None] for key in (MEDIAN, MEAN)}
        # Fewer lines with a median would be other seeds than those of the mean.
        key = MEDIAN if len(shares[MEDIAN]) == len(shares[MEAN]) else MEAN
        if shares[key]:
            over = {MEDIAN: "median", MEAN: "mean"}[key]
            lines.append(f"| {row.name} | {over} | {spread(over_seeds(shares[key]), 3)} |")
    return lines if len(lines) > 2 else []
