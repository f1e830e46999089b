"""``turnwise compare``: which of two runs is better, and by how much at least."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..evals.compare import compare as compare_runs
from ..evals.terminal import print_comparison
from ..rollouts.store import load_episodes
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
    print_comparison(found, screen())
