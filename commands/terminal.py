"""What the commands share: two consoles, one way to be interrupted, one way to complain."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

INTERRUPTED = 130
"""The exit code of a command that was stopped with Ctrl-C, as shells have it."""

PIPED = 200
"""Columns where nobody looks: a table in a pipe or a file is not wrapped at a guessed width."""


def screen() -> Console:
    """The console for results: standard output."""
    return Console(width=None if sys.stdout.isatty() else PIPED, highlight=False)


def remark() -> Console:
    """The console for progress and remarks: standard error, so that results can be piped."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def complain(text: str) -> None:
    """One line on standard error."""
    print(f"turnwise: {' '.join(text.split())}", file=sys.stderr)


@contextmanager
def resumable(hint: str) -> Iterator[None]:
    """Turn Ctrl-C into exit code 130 and a line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        complain(f"interrupted. {hint}")
        raise typer.Exit(INTERRUPTED) from None
