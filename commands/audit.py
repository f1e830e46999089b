"""``turnwise audit``: report what is wrong with the records of a run, beyond what its summary says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from ..evals.audit.checks import Audit, audit_log
from ..evals.audit.checks import audit as audit_episodes
from ..evals.audit.logs import KINDS, find_logs
from ..evals.audit.store import context_of
from ..evals.lost_episodes import counted
from ..rollouts.store import EPISODES, MANIFEST, read_episodes
from .stores import store_in
from .terminal import screen


def audit(
    store: Annotated[
        Path,
        typer.Argument(
            help="Folder of an evaluation, an episode store, or logs of other programs: ATIF, traces.jsonl, .eval.",
            show_default=False,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look for lost and duplicated episodes, zeros from failures, rewritten tokens, and bias by time or length.

    It reads every record, and plays nothing. Besides stores of Turnwise it reads ATIF trajectories (.json, .jsonl),
    traces.jsonl of verifiers and .eval of inspect. What a log does not record is reported as not recorded. The exit
    code is 1 if a finding makes results wrong; other findings are notes, which a reader of the results should know.

    Examples:

        turnwise audit runs/eval

        turnwise audit runs/data --json

        turnwise audit jobs/2026-11-27 (a folder of trial folders with trajectory.json)
    """
    found = _audits(store)
    if as_json:
        typer.echo(json.dumps(_as_json(found), indent=2))
    else:
        for place, format, result in found:
            _show(place, format, result)
    if not all(result.passed for _, _, result in found):
        raise typer.Exit(1)


def _audits(path: Path) -> list[tuple[Path, str, Audit]]:
    """Audit the store or the logs at a path."""
    if not any((folder / MANIFEST).is_file() for folder in (path, path / EPISODES)):
        logs = find_logs(path)
        if logs:
            return [(log.path, log.format, audit_log(log)) for log in logs]
    try:
        folder = store_in(path)
    except UsageError as error:
        raise UsageError(f"{error}, or logs: {KINDS}") from None
    found = audit_episodes(read_episodes(folder), counted(folder) or None, context_of(folder))
    return [(path, "turnwise", found)]


def _as_json(found: list[tuple[Path, str, Audit]]) -> dict[str, Any]:
    each = [
        {"passed": result.passed, "path": str(place), "format": format, **asdict(result)}
        for place, format, result in found
    ]
    return each[0] if len(each) == 1 else {"passed": all(one["passed"] for one in each), "logs": each}


def _show(place: Path, format: str, result: Audit) -> None:
    def say(line: str) -> None:
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)  # ids may have escapes
        screen().print(shown, markup=False, highlight=False)

    counts = ", ".join(f"{n} {outcome}" for outcome, n in result.outcomes.items()) or "no episodes"
    say(f"{place}: {counts}" if format == "turnwise" else f"{place} ({format}): {counts}")
    for line in result.unreadable:
        say(f"BAD   {line}")
    for finding in result.findings:
        say(f"{'FAULT' if finding.fault else 'NOTE '} {finding.name}: {finding.text}")
        if finding.meaning:
            say(f"      {finding.meaning}")
    if not result.findings:
        say("nothing to report")
    for unknown in result.unknown:
        say(f"?     {unknown.name}: {'not tested' if unknown.recorded else 'not recorded'}: {unknown.why}")
