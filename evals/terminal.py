"""Print a summary on a terminal: two lines, and a table if there are several parts."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .compare import Comparison
from .formatting import (
    dollars,
    environment_notes,
    failures,
    interval,
    percent,
    plain,
    success,
    success_interval,
    success_method,
    time_split,
    whole_percent,
)
from .leaderboard import Standing
from .ranking import HEADINGS, Ranking
from .summary import Stratum, Summary


def print_summary(
    summary: Summary,
    console: Console | None = None,
    *,
    report: Path | str | None = None,
    saved: Path | str | None = None,
) -> None:
    """Print a summary; plain text if the output is piped.

    Args:
        summary: summary to print.
        console: console to print on (default: standard output).
        report: path of the report, printed at the end.
        saved: path of the saved summary, printed at the end if there is no report.
    """
    console = console or Console(highlight=False)
    line = Text("  ").append("success ", "dim").append(success(summary), "bold")
    line.append(f"  ({success_interval(summary)}, {success_method(summary)})")
    for name, value in _facts(summary):
        line.append(f"   {name} ", "dim").append(value)
    console.print(line.append(f"   {time_split(summary)}"), soft_wrap=True)
    second = Text("  ").append("failures: ", "dim").append(failures(summary))
    for name, path in [("report", report), ("summary", None if report is not None else saved)]:
        if path is not None:
            second.append(f"   {name}: ", "dim").append(str(path))
    console.print(second, soft_wrap=True)
    for note in (*environment_notes(summary), *summary.notes):
        console.print(Text("  ").append(f"note: {note}", "yellow"), soft_wrap=True)
    parts = [("level", summary.levels), ("split", summary.splits), ("template", summary.templates)]
    for name, strata in parts:
        if strata:
            console.print(_table(name, strata))


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print a comparison; plain text if the output is piped."""
    console = console or Console(highlight=False)
    console.print(Text("  ").append("success: ", "dim").append(comparison.verdict, "bold"), soft_wrap=True)
    verdict = comparison.verdict_on(comparison.mean_return)
    console.print(Text("  ").append("return:  ", "dim").append(verdict), soft_wrap=True)
    for level in comparison.levels:
        verdict = comparison.verdict_on(level, points=True)
        console.print(Text("  ").append(f"{level.name}: ", "dim").append(verdict), soft_wrap=True)
    for note in comparison.notes:
        console.print(Text("  ").append(f"note: {note}", "yellow"), soft_wrap=True)


def print_ranking(ranking: Ranking, console: Console | None = None) -> None:
    """Print a ranking: a table, then every pair in words."""
    console = console or Console(highlight=False)
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("run", "shown better than") else "right")
    for row in ranking.rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for pair in ranking.pairs:
        console.print(Text(f"  {pair.b} against {pair.a}: ", "dim").append(pair.verdict), soft_wrap=True)
    for note in ranking.notes:
        console.print(Text("  ").append(f"note: {note}", "yellow"), soft_wrap=True)


def print_standing(standing: Standing, console: Console | None = None) -> None:
    """Print one table of a leaderboard."""
    console = console or Console(highlight=False)
    console.print(Text(f"  {standing.title}", "bold"), soft_wrap=True)
    table = Table(box=None, padding=(0, 2), header_style="dim")
    headings = ("", "policy", "success", "interval", "return", "episodes", "unscored", "date", "folder")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("policy", "date", "folder") else "right")
    for number, entry in enumerate(standing.entries, 1):
        s = entry.summary
        numbers = (
            success(s),
            success_interval(s),
            plain(s.mean_return.value),
            f"{s.scored:,}",
            f"{s.episodes - s.scored:,}",
        )
        row = (str(number), entry.policy, *numbers, s.made.date[:10] if s.made else "", str(entry.folder))
        table.add_row(*map(Text, row))
    console.print(table)


def _facts(summary: Summary) -> list[tuple[str, str]]:
    facts = [("return", plain(summary.mean_return.value))]
    if (last := summary.largest_k) is not None:
        facts += [(f"pass@{last.k}", whole_percent(last.at.value)), (f"pass^{last.k}", whole_percent(last.hat.value))]
    facts.append(("turns", plain(summary.turns.value)))
    if summary.action_tokens.value:
        facts.append(("tokens", plain(summary.action_tokens.value)))
    if summary.api is not None and summary.api.cost is not None:
        facts.append(("cost", dollars(summary.api.cost)))
    return facts


def _table(name: str, strata: tuple[Stratum, ...]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column(name)
    for heading in ("episodes", "success", "interval", "return", "turns"):
        table.add_column(heading, justify="right")
    for part in strata:
        table.add_row(
            part.name,
            str(part.episodes),
            percent(part.success.value),
            interval(part.success, rate=True),
            plain(part.mean_return.value),
            plain(part.turns),
        )
    return table
