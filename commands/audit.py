"""``turnwise audit``: report what is wrong with the records of a run, beyond what its summary says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..evals.audit import audit as audit_episodes
from ..rollouts.store import read_episodes
from .replay import counted
from .stores import store_in
from .terminal import screen


def audit(
    store: Annotated[Path, typer.Argument(help="Folder of an evaluation, or an episode store.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look for lost and duplicated episodes, zeros from failures, and bias by time, level or length.

    It reads every record, and plays nothing. The exit code is 1 if a finding makes results wrong; other findings are
    notes, which a reader of the results should know.

    Examples:

        turnwise audit runs/eval

        turnwise audit runs/data --json
    """
    folder = store_in(store)
    found = audit_episodes(read_episodes(folder), counted(folder) or None)
    if as_json:
        typer.echo(json.dumps({"passed": found.passed, **asdict(found)}, indent=2))
    else:
        counts = ", ".join(f"{n} {outcome}" for outcome, n in found.outcomes.items()) or "no episodes"
        screen().print(f"{store}: {counts}", markup=False)
        for finding in found.findings:
            head = "FAULT" if finding.fault else "NOTE "
            screen().print(f"{head} {finding.name}: {finding.text}", markup=False)
        if not found.findings:
            screen().print("nothing to report")
    if not found.passed:
        raise typer.Exit(1)
