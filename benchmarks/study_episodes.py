"""Tables of a study about environment episodes: equal budgets, and episodes until a return is reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise, product

from study_config import Study
from study_rows import Row
from study_statistics import Reach, censored, median_reach, over_seeds, paired_ratio, reach, spread, value_at

from turnwise.evals.curves import Run

PLAYED = (
    "What a run plays, in the mean: turns count those of all episodes and of rollouts from their states, and a shared "
    "turn once. Tokens are those sampled in these turns."
)
"""Text before the table of turns."""
EQUAL = 1.05
"""Ratio of episode budgets up to which they count as equal."""


def budget_table(study: Study, rows: Sequence[Row]) -> list[str]:
    """If online learners played different numbers of episodes, their returns after the smallest of these numbers."""
    budgets = {
        row.name: statistics.fmean(line["episodes"] for line in row.lines) for row in rows if row.lines and online(row)
    }
    if len(budgets) < 2 or max(budgets.values()) <= EQUAL * min(budgets.values()):
        return []
    least = min(budgets.values())
    lines = [
        f"**Unequal budgets**: the scores above are after different numbers of episodes. After at most {least:,.0f}, "
        "by the last two evaluations during training. Beside each return stands after how many episodes it was "
        "measured, in the mean: learners that are evaluated less often were measured earlier.",
        "",
        f"| learner | episodes in all | return after {least:,.0f} | measured after |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row.name in budgets:
            found = [point for trace in row.traces if (point := value_at(trace, least)) is not None]
            cell, after = "–", "–"
            if found:
                cell = spread(over_seeds([value for _, value in found], *study.scale.ends), 2)
                after = f"{statistics.fmean(episodes for episodes, _ in found):,.0f}"
            lines.append(f"| {row.name} | {budgets[row.name]:,.0f} | {cell} | {after} |")
    return lines


def played_of(run: Run) -> dict[str, float]:
    """Return the turns and the sampled tokens of all that a run has played, by key of a line."""
    names = {"played_turns": "cost/steps", "played_tokens": "cost/sampled"}
    return {key: sum(float(record.get(name) or 0) for record in run.records) for key, name in names.items()}


def played_table(rows: Sequence[Row]) -> list[str]:
    """Turns and tokens of the online learners whose lines all have them."""
    lines = ["| learner | episodes | turns | sampled tokens |", "|---|---|---|---|"]
    for row in rows:
        if online(row) and all("played_turns" in line for line in row.lines):
            keys = ("episodes", "played_turns", "played_tokens")
            means = [f"{statistics.fmean(line[key] for line in row.lines):,.0f}" for key in keys]
            lines.append(f"| {row.name} | {' | '.join(means)} |")
    return lines if len(lines) > 2 else []


def online(row: Row) -> bool:
    """Whether a learner played episodes."""
    return any(trace and trace[-1][0] for trace in row.traces)


def reach_table(study: Study, rows: Sequence[Row]) -> list[str]:
    """Episodes until a curve first reaches each threshold: medians over seeds, and the ratios of those compared."""
    played = [row for row in rows if online(row)]
    heads = [f"to {threshold:g}" for threshold in study.thresholds]
    lines = [f"| learner | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    found = {row.name: [[reach(t, threshold) for t in row.traces] for threshold in study.thresholds] for row in played}
    for row in played:
        cells = " | ".join(median_cell(column) for column in found[row.name])
        lines.append(f"| {row.name}, every {interval(row):,.0f} | {cells} |")
    seeds = {row.name: [line["seed"] for line in row.lines] for row in played}
    for slow, fast in compared(study):
        if slow in found and fast in found:
            columns = zip(found[slow], found[fast], strict=True)
            cells = [
                ratio_cell(dict(zip(seeds[slow], a, strict=True)), dict(zip(seeds[fast], b, strict=True)))
                for a, b in columns
            ]
            lines.append(f"| **{slow} : {fast}** | {' | '.join(cells)} |")
    return lines if played else []


def compared(study: Study) -> list[tuple[str, str]]:
    """Return the pairs of learners whose episodes are divided, the slower one first."""
    *slower, last = study.against
    return [*((slow, fast) for fast, slow in product((last, *study.also), slower)), *study.pairs]


def interval(row: Row) -> float:
    """Return how many episodes a learner plays between evaluations, in the median over all of them."""
    points = [sorted({0.0, *(episodes for episodes, _ in trace)}) for trace in row.traces]
    return statistics.median(after - before for trace in points for before, after in pairwise(trace))


def median_cell(column: Sequence[Reach | None]) -> str:
    """The median over seeds with its interval, and how many seeds reached it; ``≥`` where the median one did not.

    Seeds that started above the threshold are left out, and counted.
    """
    counted = [one for one in column if one is not None]
    above = f", {len(column) - len(counted)} started above" if len(counted) < len(column) else ""
    if not counted:
        return f"–{above}"
    bound = "≥ " if censored(counted) else ""
    reached = sum(one.reached for one in counted)
    return f"{bound}{spread(median_reach(counted), 0)}, {reached} of {len(counted)}{above}"


def ratio_cell(slow: Mapping[int, Reach | None], fast: Mapping[int, Reach | None]) -> str:
    """The median ratio over the seeds that both learners have and that started below the threshold.

    Args:
        slow: when the slower learner reached it, by seed.
        fast: the same of the faster one.
    """
    pairs = [(late, early) for seed, late in slow.items() if late and (early := fast.get(seed))]
    return str(paired_ratio(pairs)) if pairs else "–"
