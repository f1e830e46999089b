"""Shared by the commands: consoles for results and remarks, interruption, and error messages."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO, cast

import typer
from rich.console import Console

from ..logs import as_json, event
from ..stop_signals import counted_as_ctrl_c

LOG = logging.getLogger(__name__)

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C stopped, as in shells."""

INCONCLUSIVE = 3
"""Exit code of an evaluation that ran to its end, and in which the infrastructure failed too often for a result."""

PIPED = 200
"""Width in columns if the output is not a terminal, so that tables in pipes and files do not wrap."""


def screen() -> Console:
    """Return the console for results: standard output."""
    return Console(width=None if sys.stdout.isatty() else PIPED, highlight=False)


def remark() -> Console:
    """Return the console for progress and remarks: standard error, so that results can be piped."""
    if as_json():
        return Console(file=cast(TextIO, _Events()), soft_wrap=True, highlight=False)
    return Console(stderr=True, soft_wrap=True, highlight=False)


class _Events(io.TextIOBase):
    """Logs each line that is written to it, since standard error is for JSON lines alone."""

    def write(self, text: str) -> int:
        """Log the lines of a text that are not blank."""
        for line in filter(str.strip, text.splitlines()):
            event(LOG, "remark", line)
        return len(text)


@contextmanager
def stdout_for_protocol() -> Iterator[TextIO]:
    """Keep standard output for a protocol: other output inside the block goes to standard error.

    That covers an environment's ``print`` and the processes that it starts.

    Yields:
        Standard output, for the protocol alone.
    """
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        with open(wire, "w", encoding="utf-8", errors="replace", closefd=False) as out, redirect_stdout(sys.stderr):
            yield out
    finally:
        os.dup2(wire, 1)
        os.close(wire)


def complain(text: str) -> None:
    """Print one line on standard error."""
    line = " ".join(text.split())
    if as_json():
        event(LOG, "error", line, level=logging.ERROR)
    else:
        print(f"turnwise: {line}", file=sys.stderr)


@contextmanager
def resumable(hint: str) -> Iterator[None]:
    """Turn Ctrl-C into exit code 130 and a line that says how to resume.

    SIGTERM, which schedulers send before they kill, and SIGHUP, which a closed terminal sends, count as Ctrl-C.
    """
    with counted_as_ctrl_c():
        try:
            yield
        except KeyboardInterrupt:
            complain(f"interrupted. {hint}")
            raise typer.Exit(INTERRUPTED) from None
