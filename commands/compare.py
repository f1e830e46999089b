"""``turnwise compare``: which of several runs is better, and by how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..evals.compare import check_sources
from ..evals.compare import compare as compare_runs
from ..evals.lost_episodes import say_lost_episodes
from ..evals.ranking import rank
from ..evals.terminal import print_comparison, print_ranking
from ..rollouts.store import load_episodes
from .stores import store_in
from .terminal import screen


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of evaluations, the baseline first.", show_default=False)],
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Nominal coverage of the intervals.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare evaluations, task against task if they share tasks.

    Three or more are ranked by success, and every pair is compared; the intervals of all pairs hold jointly.

    Examples:

        turnwise compare runs/before runs/after

        turnwise compare runs/base runs/bc runs/loop
    """
    if len(runs) < 2:
        raise UsageError(f"name at least two runs to compare, not only {runs[0]}")
    short = [run.name for run in runs]
    names = short if len(set(short)) == len(runs) else [str(run) for run in runs]
    stores = {name: store_in(run) for name, run in zip(names, runs, strict=True)}
    if len(stores) < len(runs):
        raise UsageError("two of these runs are the same; name each run once")
    played = {name: load_episodes(store) for name, store in stores.items()}
    for name, store in stores.items():
        say_lost_episodes(store, played[name])
    check_sources(stores)
    if len(runs) == 2:
        found = compare_runs(*played.values(), names=(names[0], names[1]), confidence=confidence)
        print_comparison(found, screen()) if not as_json else typer.echo(json.dumps(found.to_json(), indent=2))
        return
    ranking = rank(played, confidence=confidence)
    print_ranking(ranking, screen()) if not as_json else typer.echo(json.dumps(ranking.to_json(), indent=2))
