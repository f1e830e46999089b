"""``turnwise tasks``: build task sets from packages, and corpora from pages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ..envs.code.backends import shared_backend, spec_for
from ..envs.code.build_repair import Builder, Progress
from ..envs.code.build_sources import opened
from ..errors import UsageError
from ..stop_signals import run_until_stopped
from .corpus import build_corpus
from .terminal import remark, resumable, screen

ACTIONS = ("build-repair", "build-corpus")


def tasks(
    action: Annotated[str, typer.Argument(metavar="build-repair|build-corpus", help="Action to take.")],
    source: Annotated[
        str,
        typer.Argument(
            help="build-repair: an sdist, a folder, or an installed package with its tests. build-corpus: a folder of "
            "text or Markdown, a JSONL file, wordnet or python-docs."
        ),
    ],
    target: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="build-corpus: corpus file to write.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="build-repair: output folder.", show_default="./repair-SOURCE")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="Stop after this many verified tasks.")
    ] = None,
    sandbox: Annotated[
        str | None, typer.Option(help="Sandbox backend to run tests in (default: the first that confines).")
    ] = None,
    relax: Annotated[list[str] | None, typer.Option(help="Limit that may go unenforced; may be repeated.")] = None,
    library: Annotated[
        list[str] | None, typer.Option(help="Pure-Python distribution that the tests need; may be repeated.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of sandboxes at a time (default: all cores).")
    ] = None,
    where: Annotated[
        Path | None, typer.Option("--from", help="Folder of wordnet or python-docs, if not the system's own.")
    ] = None,
    words: Annotated[
        int | None, typer.Option(min=1, help="Cut pages into passages of at most this many words.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and list what is not a page.")] = False,
) -> None:
    """Build verified repair tasks from a package, or a corpus with a search index from pages.

    build-repair injects faults into a package and keeps those that its own tests catch, each verified twice in a
    sandbox. You can interrupt and resume it. Play the tasks with the environment option tasks=FOLDER.

    build-corpus writes pages and their search index into one file; serve it with turnwise retrieve.

    Examples:

        pip download --no-deps --no-binary :all: boltons

        turnwise tasks build-repair boltons-26.2.0.tar.gz --limit 1000

        turnwise eval turnwise/CodeRepair-v3 --policy oracle env_kwargs.tasks=repair-boltons

        turnwise tasks build-corpus my-notes/ notes.corpus --words 200
    """
    repairs = {"--out": out, "--limit": limit, "--sandbox": sandbox, "--relax": relax, "--library": library}
    if action == "build-corpus":
        _only(action, {**repairs, "--jobs": jobs})
        build_corpus(source, target, where, words, skip_bad)
    elif action == "build-repair":
        _only(action, {"OUT": target, "--from": where, "--words": words, "--skip-bad": skip_bad or None})
        _build_repair(source, out, limit, sandbox, relax or (), library or (), jobs or os.cpu_count() or 1)
    else:
        raise UsageError(f"unknown action: turnwise tasks {action}; choose from {', '.join(ACTIONS)}")


def _only(action: str, foreign: Mapping[str, object]) -> None:
    """Refuse options of the other action."""
    given = [name for name, value in foreign.items() if value is not None]
    if given:
        raise UsageError(f"turnwise tasks {action} does not take {', '.join(given)}")


def _build_repair(
    package: str,
    out: Path | None,
    limit: int | None,
    sandbox: str | None,
    relax: Sequence[str],
    library: Sequence[str],
    jobs: int,
) -> None:
    found = opened(package)
    folder = out or Path(f"repair-{found.name}")
    spec = spec_for(sandbox, relax)
    builder = Builder(found, folder, shared_backend(sandbox), spec, sandbox, library)
    with resumable(f"Run the same command again to resume {folder}."), bar() as shown:
        line = shown.add_task(found.name, total=None, kept=0)

        def show(progress: Progress) -> None:
            shown.update(line, completed=progress.tried, total=progress.total, kept=progress.kept)

        state = run_until_stopped(builder.build(limit, jobs, show))
    screen().print(
        f"{folder}: {state.kept} verified repair tasks from {found.name} {found.version} "
        f"({found.licence or 'no licence named'}); {state.tried} of {state.total} faults tried"
    )


def bar() -> Bar:
    """Return a progress bar on standard error."""
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("faults tried, {task.fields[kept]} tasks"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=remark(),
    )
