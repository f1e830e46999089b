"""``turnwise new``: begin an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..envs.scaffold import Kind, scaffold


def new(
    name: Annotated[str, typer.Argument(help="The package's name in Python, e.g. my_env.")],
    kind: Annotated[Kind, typer.Option(help="turn: the agent answers in text; tool: it calls tools.")] = Kind.TURN,
    folder: Annotated[Path, typer.Option(help="Where the package's folder is made.")] = Path("."),
) -> None:
    """Write a small package with an environment that works and passes certification, to be changed into yours.

    Examples:

        turnwise new my_env

        turnwise new my_world --kind tool && turnwise certify my_world
    """
    written = scaffold(name, kind, folder)
    root = written[0].parent.parent
    for path in written:
        typer.echo(path)
    typer.echo(f"\nnow: turnwise certify {root}    turnwise eval {root} --policy oracle    pip install -e {root}")
