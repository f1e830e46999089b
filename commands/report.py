"""``turnwise report``: write reports on evaluations and training runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of evaluations or training runs, or folders of these.")],
    out: Annotated[Path | None, typer.Option(help="Output folder (default: the first run's).")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Nominal coverage of the intervals.")] = 0.95,
) -> None:
    """Write report.html (one file with curves and whole episodes), report.md and report.json.

    Seeds of one training run are averaged. With two evaluations, the second is compared with the first. Three or
    more are ranked in one table for each environment, and every pair in it is compared.

    Examples:

        turnwise report runs/eval

        turnwise report runs/before runs/after --out runs/story

        turnwise report runs/loop-seed0 runs/loop-seed1 runs/loop-seed2 --out runs/loop
    """
    from ..evals.report import report as write  # draws with matplotlib, which nothing else needs

    files = write(runs, out, title=title, confidence=confidence)
    for file in (files.html, files.markdown, files.json):
        typer.echo(file)
