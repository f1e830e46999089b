"""``turnwise leaderboard``: rank all evaluations in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..evals.leaderboard import standings
from ..evals.terminal import print_standing
from .terminal import remark, screen


def leaderboard(
    folder: Annotated[Path, typer.Argument(help="Folder to search for evaluations, recursively.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Rank all evaluations in a folder: one table for each environment and choice of tasks, best first.

    Each interval in the table belongs to one run. `turnwise compare A B C` shows which differences hold.
    Unscored episodes, such as those of a failed server, are in no average; if there are many, look at the run.

    Examples:

        turnwise leaderboard runs
    """
    found = standings(folder)
    for why in found.skipped:
        remark().print(f"skipped: {why}", markup=False)
    if as_json:
        rows = [{"title": each.title, "entries": [entry.to_json() for entry in each.entries]} for each in found.tables]
        typer.echo(json.dumps(rows, indent=2))
        return
    for each in found.tables:
        print_standing(each, screen())
