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
    "How much of their targets' variance the values explain before they learn from them: means over the last two "
    "thirds of a run's steps. The targets of ArCHer's V are returns to go. Where a limit cuts an episode off, V of the "
    "last state is a part of them."
)
"""Text before the table."""


def explained_of(run: Run) -> float | None:
    """Return the mean share that a run's values explain, over the last two thirds of its steps."""
    for name in EXPLAINED:
        if values := [value for _, value, _ in run.series(name).values()]:
            return statistics.fmean(values[len(values) // 3 :])
    return None


def explained_table(rows: Sequence[Row]) -> list[str]:
    """Of each learner with values, the share that they explain: the mean over seeds."""
    lines = ["| learner | explained (95 %) |", "|---|---|"]
    for row in rows:
        shares = [line["explained"] for line in row.lines if line.get("explained") is not None]
        if shares:
            lines.append(f"| {row.name} | {spread(over_seeds(shares), 3)} |")
    return lines if len(lines) > 2 else []
