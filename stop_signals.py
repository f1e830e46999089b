"""The signals that stop a command: Ctrl-C, and the two that count as it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGHUP)
"""Signals other than Ctrl-C's that ask a command to end."""


def stop_signal() -> signal.Signals:
    """Return the signal whose handler says what stopping means: SIGINT, or SIGTERM if SIGINT is ignored.

    A shell without job control, which is every script, starts background jobs with SIGINT ignored. It stays ignored,
    and SIGTERM then does what Ctrl-C does elsewhere: it waits for critical sections, and ends a run cleanly.
    """
    return signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT


@contextmanager
def counted_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM, which schedulers send before they kill, and SIGHUP, of a closed terminal, do what Ctrl-C does."""
    stop = stop_signal()
    mine = [kind for kind in STOPS if signal.getsignal(kind) is signal.SIG_DFL]
    handlers = {kind: signal.default_int_handler if kind is stop else _forward for kind in mine}
    before = {kind: signal.signal(kind, handler) for kind, handler in handlers.items()}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _forward(kind: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does now."""
    handler = signal.getsignal(stop_signal())
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
