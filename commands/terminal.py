"""Shared by the commands: consoles for results and remarks, interruption, and error messages."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from types import FrameType
from typing import TextIO, cast

import typer
from rich.console import Console

from ..logs import as_json, event

LOG = logging.getLogger(__name__)

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C stopped, as in shells."""

INCONCLUSIVE = 3
"""Exit code of an evaluation that ran to its end, and in which the infrastructure failed too often for a result."""

STOPS = (signal.SIGTERM, signal.SIGHUP)
"""Signals other than Ctrl-C's that ask a command to end."""

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
    before = {kind: signal.signal(kind, _as_ctrl_c) for kind in STOPS if signal.getsignal(kind) is signal.SIG_DFL}
    try:
        yield
    except KeyboardInterrupt:
        complain(f"interrupted. {hint}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _as_ctrl_c(kind: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does now, or raise ``KeyboardInterrupt`` if it is ignored, as in a shell's background job."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
