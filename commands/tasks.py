"""``turnwise tasks``: make task sets out of packages."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ..envs.code.backends import shared_backend, spec_for
from ..envs.code.build_repair import Builder, Progress
from ..envs.code.build_sources import opened
from ..errors import UsageError
from .terminal import remark, resumable, screen

ACTIONS = ("build-repair",)


def tasks(
    action: Annotated[str, typer.Argument(metavar="build-repair", help="What to do.")],
    package: Annotated[str, typer.Argument(help="An sdist, a folder, or an installed package with its tests.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the task set.", show_default="./repair-PACKAGE")
    ] = None,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="Stop at so many verified tasks.")] = None,
    sandbox: Annotated[
        str | None, typer.Option(help="The backend in which tests run; by default the first that confines.")
    ] = None,
    relax: Annotated[list[str] | None, typer.Option(help="A limit that may go unenforced; may be repeated.")] = None,
    library: Annotated[
        list[str] | None, typer.Option(help="A pure-Python distribution that the tests need; may be repeated.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Sandboxes at a time (all cores).")] = None,
) -> None:
    """Put faults into a package and keep those that its own tests catch, each verified twice in a sandbox.

    It can be interrupted, and goes on where it stopped. Play the tasks with the environment option tasks=FOLDER.

    Examples:

        pip download --no-deps --no-binary :all: boltons

        turnwise tasks build-repair boltons-26.2.0.tar.gz --limit 1000

        turnwise eval turnwise/CodeRepair-v0 --policy oracle env_kwargs.tasks=repair-boltons
    """
    if action not in ACTIONS:
        raise UsageError(f"turnwise tasks {action}: there is only {', '.join(ACTIONS)}")
    found = opened(package)
    folder = out or Path(f"repair-{found.name}")
    spec = spec_for(sandbox, relax or ())
    builder = Builder(found, folder, shared_backend(sandbox), spec, sandbox, library or ())
    with resumable(f"The same command goes on with {folder}."), bar() as shown:
        line = shown.add_task(found.name, total=None, kept=0)

        def told(progress: Progress) -> None:
            shown.update(line, completed=progress.tried, total=progress.total, kept=progress.kept)

        state = asyncio.run(builder.build(limit, jobs or os.cpu_count() or 1, told))
    screen().print(
        f"{folder}: {state.kept} verified repair tasks from {found.name} {found.version} "
        f"({found.licence or 'no licence named'}); {state.tried} of {state.total} faults tried"
    )


def bar() -> Bar:
    """A progress bar on standard error."""
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("faults tried, {task.fields[kept]} tasks"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=remark(),
    )
