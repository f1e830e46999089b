"""``turnwise compare``: which of two runs is better, and by how much at least."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ..evals.compare import Comparison, Difference
from ..evals.compare import compare as compare_runs
from ..rollouts.store import load_episodes
from .shown import estimate
from .stores import store_in
from .terminal import screen


def compare(
    a: Annotated[Path, typer.Argument(help="The baseline: the folder of an evaluation.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="The other run.", show_default=False)],
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Nominal coverage of the intervals.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Compare two evaluations, task against task where they share tasks.

    Examples:

        turnwise compare runs/before runs/after
    """
    names = (a.name, b.name) if a.name != b.name else (str(a), str(b))
    found = compare_runs(load_episodes(store_in(a)), load_episodes(store_in(b)), names=names, confidence=confidence)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    console = screen()
    console.print(table(found))
    for note in found.notes:
        console.print(note, markup=False)
    console.print(found.verdict, markup=False, style="bold")


def table(found: Comparison) -> Table:
    """One line per quantity."""
    shown = Table("", found.a, found.b, "difference", "", box=None, header_style="bold")
    shown.add_row(*row(found.success, percent=True))
    for level in found.levels:
        shown.add_row(*row(level, percent=True))
    shown.add_row(*row(found.mean_return, percent=False))
    return shown


def row(difference: Difference, *, percent: bool) -> tuple[str, ...]:
    """Name, both values, the difference with its interval, and how it was taken."""
    values = (difference.a, difference.b, difference.difference)
    cells = [estimate(value, percent=percent) for value in values]
    return difference.name, *cells, "paired" if difference.paired else "independent"
