"""Summaries and estimates as a person reads them on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from ..evals.statistics import Estimate
from ..evals.summary import Summary
from .terminal import screen

SUMMARY = "summary.json"


def estimate(found: Estimate, *, percent: bool = False) -> str:
    """``61.5 % (54.6 – 68.0)``, or without an interval where there is none."""
    shown, unit, digits = (found.scaled(100), " %", 1) if percent else (found, "", 2)
    text = f"{shown.value:.{digits}f}{unit}"
    if shown.low is None or shown.high is None:
        return text
    return f"{text} ({shown.low:.{digits}f} – {shown.high:.{digits}f})"


def lines(summary: Summary) -> list[str]:
    """What a run says, in a few lines: success and return, effort, failures, parts, remarks."""
    policy, environment, ours = summary.time.shares
    told = [
        f"success {estimate(summary.success, percent=True)}, {summary.success.method} "
        f"{100 * summary.success.confidence:.0f} %   return {estimate(summary.mean_return)}"
        + "".join(
            f"   pass@{p.k} {100 * p.at.value:.0f} %   pass^{p.k} {100 * p.hat.value:.0f} %" for p in summary.pass_k
        ),
        f"{summary.scored} episodes of {summary.tasks} tasks   turns {summary.turns.value:.1f}   "
        + (f"tokens {summary.action_tokens.value:.0f}   " if summary.action_tokens.value else "")
        + f"policy {100 * policy:.0f} % · environment {100 * environment:.0f} % · turnwise {100 * ours:.0f} %",
    ]
    failures = [f"{count} {kind}" for kind, count in summary.failures.items()]
    broken = [f"{count} {error} (not scored)" for error, count in summary.infrastructure.items()]
    cancelled = [f"{summary.cancelled} cancelled (not scored)"] if summary.cancelled else []
    retried = [f"{summary.retried} retried"] if summary.retried else []
    if failures or broken or cancelled or retried:
        told.append("failures: " + " · ".join(failures + broken + cancelled + retried))
    for kind, parts in (("level", summary.levels), ("split", summary.splits), ("template", summary.templates)):
        for part in parts:
            told.append(
                f"  {kind} {part.name:<14} success {estimate(part.success, percent=True):<24} "
                f"return {estimate(part.mean_return):<24} turns {part.turns:.1f}"
            )
    return told + [f"note: {note}" for note in summary.notes]


def tell(summary: Summary, *, as_json: bool = False, files: tuple[Path, ...] = ()) -> None:
    """Print a summary, and where its files are."""
    if as_json:
        typer.echo(json.dumps(summary.to_json(), indent=2))
        return
    console = screen()
    console.print(f"{', '.join(summary.env_ids)} · {summary.policy}", style="bold", markup=False)
    for line in lines(summary):
        console.print(line, markup=False)
    for file in files:
        console.print(str(file), markup=False, style="dim")
