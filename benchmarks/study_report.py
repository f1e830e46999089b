"""The report of a study: scores with intervals, episodes to a return, curves, in Markdown and one image."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import study_plan as plan
from study_clones import APART, apart_list
from study_config import Study
from study_curves import draw
from study_episodes import PLAYED, budget_table, played_table, reach_table
from study_plan import Job
from study_ranks import mean_error, mean_rank
from study_reading import LINES, READING, reading_table
from study_rows import Row, job_of, read_lines, table_rows
from study_sequential import SEQUENTIAL, decision_table
from study_statistics import FEWEST_SEEDS, improvement, over_seeds, spread
from study_values import VALUES, explained_table

from turnwise.errors import UsageError
from turnwise.evals.statistics import wilson

PAGES = "results"
"""The folder in ``docs/`` with a page for each study."""
MARK = "<!-- from here on, benchmarks/study.py report writes this page -->"
"""Text above this line is written by hand, and stays."""

RANKS = (
    "How the critic ranks utterances within a state: `critic/rank` is Kendall's τ-b of its Q with the mean returns of "
    "rollouts, and 0 is chance. The values are means over all states of all seeds whose rollouts differ, ± their "
    "standard error over states. The table above has the mean over the states of a run, with an interval over seeds. "
    "Returns of a few rollouts vary, so a perfect critic would stay below 1. Nothing learns from these episodes, and "
    "neither they nor their processor time are counted."
)
"""Text before the table of ranks."""
REACHES = (
    "Environment episodes until the evaluations during training (each the mean with its neighbors) first reach a "
    "return. Beside each learner stands how many episodes it plays between evaluations: its curve has no other points, "
    "so smaller differences mean little. Medians over seeds (interval of order statistics), and how many seeds reached "
    "it. A seed that never did counts with all its episodes (≥, and an interval that ends in such seeds has no upper "
    "end), and one that starts above is left out. Ratios are medians over pairs of the same seed; a run that never "
    "arrived bounds the ratio of its pair on one side only."
)
"""Text before the table of episodes to a return."""
COLLAPSES = (
    "Seeds that end below their own clone, with Wilson's interval. Where seeds can collapse, Student's interval for "
    "the mean covers too seldom: with ten runs that collapse with probability 0.05 each, in 41 % of cases."
)
"""Text before the list of collapses."""
CLIPS = "What was clipped of the importance ratios, means over the steps of a run:"
"""Text before the table of clipped ratios."""


def score_table(study: Study, rows: Sequence[Row], dataset: float) -> list[str]:
    """One line per learner: its score with an interval over seeds, the return, the cost, and how its critic ranks."""
    ranked = any(ranks for row in rows for ranks in row.ranks)
    lines = [
        "| learner | rate | seeds | normalized score (95 %) | return | success | episodes | CPU s |"
        + (" `critic/rank` |" if ranked else ""),
        "|---|---|---|---|---|---|---|---|" + ("---|" if ranked else ""),
    ]
    for row in rows:
        returns = [line["return"] for line in row.lines]
        failed = f" ({row.failed} failed)" if row.failed else ""
        if not returns:
            lines.append(
                f"| {row.name} | {rate(row.value)} | 0{failed} | – | – | – | – | – |{' – |' if ranked else ''}"
            )
            continue
        success = statistics.fmean(line["success"] for line in row.lines)
        episodes = statistics.fmean(line["episodes"] for line in row.lines)
        seconds = statistics.fmean(line["cpu_seconds_training"] for line in row.lines)
        lines.append(
            f"| {row.name} | {rate(row.value)} | {len(returns)}{failed} | {_returns(study, returns, dataset)} "
            f"| {success:.0%} | {episodes:,.0f} | {seconds:.0f} |" + (f" {rank_cell(study, row)} |" if ranked else "")
        )
    for row in rows:
        lines += [line + (" – |" if ranked else "") for line in _start_lines(study, row, dataset)]
    return list(dict.fromkeys(lines))  # several starts are measured with one oracle


def rank_cell(study: Study, row: Row) -> str:
    """How a learner's critics rank: the mean over a run's states, then over seeds; 0 where noise replaces it."""
    if study[row.name].control == "noise":
        return "0 (noise)"
    found = [mean for ranks in row.ranks if (mean := mean_rank(ranks)) is not None]
    return spread(over_seeds(found), 2) if found else "–"


def rank_table(study: Study, rows: Sequence[Row]) -> list[str]:
    """How the critics of each learner rank at their first and at their last measurement: means over all states."""
    lines = ["| learner | when the actor begins | at the last measurement |", "|---|---|---|"]
    for row in rows:
        measured = [ranks for ranks in row.ranks if ranks]
        if measured and study[row.name].control is None:
            cells = []
            for place in (0, -1):
                chosen = [ranks[place] for ranks in measured if place == 0 or len(ranks) > 1]
                if not chosen:
                    cells.append("–")
                    continue
                after = statistics.fmean(rank.episodes for rank in chosen)
                states = sum(rank.states for rank in chosen)
                found = f"{mean_rank(chosen):.2f} ± {mean_error(chosen):.2f} ({states:.0f} states)"
                cells.append(f"{found}, after {after:,.0f} episodes")
            lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


PLAYERS = {"T=0": "{} at T = 0", "T=0.5": "{} at T = 0.5", "blind": "{}, blind", "oracle": "oracle"}
"""Names in the table of the players that a start is measured with."""


def _start_lines(study: Study, row: Row, dataset: float) -> list[str]:
    """One line per player, where others start from a learner: what its models reach without any of them."""
    starts = [line["start"]["plays"] for line in row.lines if line.get("start")]
    lines = []
    for player, title in PLAYERS.items() if starts else ():
        returns = [plays[player]["reward"] for plays in starts]
        success = statistics.fmean(plays[player]["success"] for plays in starts)
        scores = f"{_returns(study, returns, dataset)} | {success:.0%}"
        lines.append(f"| {title.format(row.name)} | – | {len(starts)} | {scores} | – | – |")
    return lines


def _returns(study: Study, returns: Sequence[float], dataset: float) -> str:
    """Return the cells of the normalized score and the return; intervals end at bounds that are hard."""
    scores = [study.normalized(value, dataset) for value in returns]
    normalized = over_seeds(scores, *((0, 100) if study.scale.hard else ()))
    return f"{spread(normalized, 1)} | {spread(over_seeds(returns, *study.scale.ends), 2)}"


def reading_line(rows: Sequence[Row]) -> str:
    """Say how much reading adds to the return of each start: the least and the most of its seeds."""
    said = []
    for row in rows:
        if starts := [line["start"] for line in row.lines if line.get("start")]:
            found, low = [start["reads"] for start in starts], min(start["low"] for start in starts)
            much, seeds, interval = f"{found[0]:.2f}", "one seed", "the 95 % interval over tasks begins"
            if len(found) > 1:
                much, seeds = f"{min(found):.2f} to {max(found):.2f}", f"{len(found)} seeds"
                interval = "the lowest of their 95 % intervals over tasks begins"
            said.append(f"Reading adds {much} of return to {row.name} ({seeds}; {interval} at {low:.2f}).")
    return " ".join(said)


def failed_line(rows: Sequence[Row]) -> str:
    """Say which learners have runs that failed: the mean of the others is not theirs."""
    failed = [f"{row.name} {row.failed} of {row.failed + len(row.lines)}" for row in rows if row.failed]
    return f"**Failed runs** are in no mean, interval or ratio: {', '.join(failed)}." if failed else ""


def collapse_list(study: Study, rows: Sequence[Row]) -> list[str]:
    """List how many seeds of each learner end below the clone that they started from, or fail, if any does."""
    starts = {(row.name, line["seed"]): float(line["return"]) for row in rows for line in row.lines}
    lines = []
    for row in rows:
        after = study[row.name].after
        pairs = [(float(line["return"]), starts.get((str(after), line["seed"]))) for line in row.lines]
        below = sum(start is not None and end < start for end, start in pairs) + row.failed
        if below:
            runs = len(pairs) + row.failed
            share, failed = wilson(below, runs), f", of which {row.failed} failed" if row.failed else ""
            lines.append(f"- {row.name}: {below} of {runs} ({share.low:.0%} to {share.high:.0%}){failed}")
    return lines


def improvement_line(study: Study, rows: Sequence[Row]) -> str:
    """How often a seed of the last learner that is compared, or of ``also``, does better than one of the others."""
    returns = {row.name: [float(line["return"]) for line in row.lines] for row in rows}
    *slower, last = study.against
    sentences = []
    for fast in (last, *study.also):
        said = [
            f"above a seed of {slow} with probability {spread(improvement(returns[slow], returns[fast]), 2)}"
            for slow in slower
            if returns.get(slow) and returns.get(fast)
        ]
        pairs = [said[at : at + 2] for at in range(0, len(said), 2)]  # no sentence has more
        sentences += [f"A seed of {fast} ends {', and '.join(pair)}." for pair in pairs]
    return " ".join(sentences)


def clip_table(rows: Sequence[Row]) -> list[str]:
    """Of each learner that clips ratios, how much it clipped: means over steps, then over seeds."""
    lines = [
        "| learner | tokens clipped (95 %) | from below | from above | ratio, 99th percentile |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        found = [clip for clip in row.clips if clip]
        if any(clip.low + clip.high for clip in found):
            share = over_seeds([100 * (clip.low + clip.high) for clip in found], 0, 100)
            low, high, p99 = (statistics.fmean(getattr(c, name) for c in found) for name in ("low", "high", "p99"))
            lines.append(f"| {row.name} | {spread(share, 2)} % | {low:.2%} | {high:.2%} | {p99:.2f} |")
    return lines if len(lines) > 2 else []


def sweep_table(study: Study, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every rate of every sweep with its mean return: what was looked at before the reported seeds ran."""
    outcomes = {Job(one["learner"], one["digest"], one["value"], one["seed"]): one["return"] for one in results}
    if study.sweep is None:
        return []
    values = study.sweep.values
    lines = [f"| sweep | {' | '.join(rate(value) for value in values)} |", "|---|" + "---|" * len(values)]
    for learner in study.learner:
        sweep = {} if learner.like else plan.swept_jobs(study, learner.name)
        if sweep and all(job in outcomes for jobs in sweep.values() for job in jobs):
            best = plan.chosen(study, learner.name, outcomes)
            cells = []
            for value, jobs in sweep.items():
                found = [outcomes[job] for job in jobs]
                mean = "failed" if None in found else f"{statistics.fmean(x for x in found if x is not None):.2f}"
                cells.append(f"**{mean}**" if value == best else mean)
            lines.append(f"| {learner.name} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def write_report(study: Study, folder: Path, results: Sequence[Mapping[str, Any]], docs: Path) -> None:
    """Write the tables of the study's page, and its curves as an image beside it.

    Args:
        study: the study.
        folder: folder of its results; its name is the study's.
        results: results of its runs.
        docs: folder of the documentation.

    Raises:
        UsageError: all results are of another version of the study.
    """
    about = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    page = docs / PAGES / f"{folder.name}.md"
    current = newest(results)
    rows = table_rows(study, current)
    if not rows:
        commits = ", ".join(sorted({str(line["versions"]["commit"]) for line in results}))
        raise UsageError(
            f"the lines in {folder} were made by another version of this study (at commit {commits}), so "
            f"{page} stays as it is: run the study again, or write the report at that commit"
        )
    name, dataset = folder.name, float(about["return"])
    lines = [
        f"`python benchmarks/study.py {name}`; `{study.env}`. Scale: {study.scale.min:g} is 0, the offline data's mean "
        f"return {dataset:.2f} ({about['episodes']} episodes, {about['success']:.0%} solved) is 50, "
        f"{study.scale.max:g} is 100. {measured(study, rows)} Intervals are Student's over seeds, from {FEWEST_SEEDS} "
        f"seeds on{', within the scale' if study.scale.hard else ''}.",
        "",
        *score_table(study, rows, dataset),
    ]
    lines += _part(failed_line(rows).splitlines())
    lines += _part(reading_line(rows).splitlines())
    lines += _part(collapse_list(study, rows), COLLAPSES)
    lines += _part(reading_table(rows, read_lines(folder / LINES)), READING)
    lines += _part(budget_table(study, rows))
    lines += _part(improvement_line(study, rows).splitlines())
    lines += _part(decision_table(study, {job_of(one): one["return"] for one in current}), SEQUENTIAL)
    if study.sweep is not None:
        seeds = f"{plan.SWEEP_SEED} … {plan.SWEEP_SEED + study.sweep.seeds - 1}"
        intro = f"Mean return on the sweep's own seeds ({seeds}), the chosen rate in bold:"
        lines += _part(sweep_table(study, current), intro)
    lines += _part(reach_table(study, rows), REACHES)
    lines += _part(apart_list(study, rows), APART)
    lines += _part(rank_table(study, rows), RANKS)
    lines += _part(explained_table(rows), VALUES)
    lines += _part(clip_table(rows), CLIPS)
    lines += _part(played_table(rows), PLAYED)
    drawn = [row for row in rows if row.name in study.drawn or not study.drawn]
    curves = {row.name: [trace for trace in row.traces if trace] for row in drawn}
    page.parent.mkdir(parents=True, exist_ok=True)
    if draw(study.title, curves, page.with_suffix(".png")):
        lines += ["", f"![Return against environment episodes, {study.title}]({name}.png)"]
    place(page, study.title, "\n".join(lines))


def _part(lines: Sequence[str], intro: str = "") -> list[str]:
    """Return lines as a part of a section, after their introduction; nothing if there are none."""
    return ["", *([intro, ""] if intro else []), *lines] if lines else []


def measured(study: Study, rows: Sequence[Row]) -> str:
    """Say in how many episodes of how many tasks the reported models were measured, which may be fewer than asked."""
    found = {(line["measured_episodes"], line.get("measured_tasks")) for row in rows for line in row.lines}
    if not found:
        return "No run is measured."
    said = [f"{n} episodes" + (f" of {tasks} tasks" if tasks else "") for n, tasks in sorted(found, key=str)]
    asked = study.measure.tasks * study.measure.attempts
    short = f" ({asked} were asked for)" if any(n != asked for n, _ in found) else ""
    return f"Each run is measured in {' or '.join(said)}{short}."


def newest(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the results with the same measurement as the last one."""
    return [one for one in results if one["measure"] == results[-1]["measure"]]


def place(page: Path, title: str, text: str) -> None:
    """Write everything below the mark of a page; a new page has only its title above."""
    old = page.read_text(encoding="utf-8") if page.exists() else f"# {title}\n\n{MARK}"
    if MARK not in old:
        raise UsageError(f"{page} lacks the line {MARK}, below which its tables go")
    page.write_text(f"{old[: old.index(MARK)]}{MARK}\n\n{text}\n", encoding="utf-8")


def rate(value: float | None) -> str:
    """A swept value, as the tables have it."""
    return "–" if value is None else f"{value:g}"
