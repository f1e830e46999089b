"""``turnwise bench``: the benchmarks that come with the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ..errors import UsageError
from .terminal import screen

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The benchmark to run; omit it for a list.", show_default=False)] = "",
) -> None:
    """List the benchmarks, or run one; arguments after its name are passed to it.

    Benchmarks are part of the source but not of the wheel, since their numbers belong to a machine and a commit.

    Examples:

        turnwise bench

        turnwise bench runner --help
    """
    if name in ("--help", "-h"):  # not declared as an option, so that a benchmark can have it
        typer.echo(context.get_help())
        return
    known = {path.stem: path for path in sorted(FOLDER.glob("[!_]*.py"))}
    if not known:
        raise UsageError(
            f"there are no benchmarks at {FOLDER}: they are not in the wheel; clone the source to run them"
        )
    if name and name not in known:
        raise UsageError(f"there is no benchmark {name!r}; choose from {', '.join(known)}")
    if name:
        raise typer.Exit(subprocess.run([sys.executable, str(known[name]), *context.args], check=False).returncode)
    table = Table("benchmark", "what it measures", box=None, header_style="bold")
    for stem, path in known.items():
        table.add_row(stem, purpose(path))
    screen().print(table)


def purpose(path: Path) -> str:
    """Return the first line of a script's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
