"""``turnwise new``: create an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..envs.scaffold import Kind, scaffold


def new(
    name: Annotated[str, typer.Argument(help="Name of the Python package, e.g. my_env.")],
    kind: Annotated[Kind, typer.Option(help="turn: the agent answers in text; tool: it calls tools.")] = Kind.TURN,
    folder: Annotated[Path, typer.Option(help="Folder in which to create the package.")] = Path("."),
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Add a Dockerfile and an openenv.yaml, to serve it to OpenEnv's clients."),
    ] = False,
) -> None:
    """Create a small package with a working environment that passes certification, for you to change.

    Examples:

        turnwise new my_env

        turnwise new my_world --kind tool && turnwise certify my_world

        turnwise new my_env --serve && docker build -t my-env my_env
    """
    written = scaffold(name, kind, folder, serve=serve)
    root = written[0].parent.parent
    for path in written:
        typer.echo(path)
    if serve:
        image = root.name.strip("_").replace("_", "-")
        typer.echo(f"\nserve it: docker build -t {image} {root} && docker run -p 8000:8000 {image}")
    typer.echo(f"\nnow: turnwise certify {root}    turnwise eval {root} --policy oracle    pip install -e {root}")
