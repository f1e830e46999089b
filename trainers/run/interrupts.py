"""Ctrl-C in a run: the first one ends it cleanly, which may take a while, and the second immediately.

Where SIGINT is ignored, ``stop_signal`` says which signal stands for Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ...stop_signals import StopHandler, stop_signal

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""
CURSOR = "\n\x1b[?25h"
"""Escape code that shows the cursor again, which a progress bar hides."""


class Second(StopHandler):
    """Handler of Ctrl-C in a command: the first raises ``KeyboardInterrupt``, the second ends the process.

    The second skips all cleanup, as if the process had been killed, which runs are made to survive. The user does not
    want to wait for running work any longer, and unwinding it would save incomplete results.

    Args:
        last_words: one line for standard error.
    """

    def __init__(self, last_words: str) -> None:
        super().__init__()
        self.last_words = last_words

    def __call__(self, kind: int, frame: FrameType | None) -> None:
        if self.pressed:
            # Not by ``print``: a signal may arrive within one, and a nested print is an error.
            shown = CURSOR if os.isatty(2) else ""
            os.write(2, f"{shown}{self.last_words}\n".encode())
            os._exit(INTERRUPTED)
        super().__call__(kind, frame)


class Interrupt:
    """Whether Ctrl-C was pressed inside a ``deferred`` block."""

    requested = False


@contextmanager
def deferred() -> Iterator[Interrupt]:
    """While the block runs, let the first Ctrl-C only set ``requested``; the second does what it did before.

    A loop without an event loop checks it between steps, and so never stops midway. Outside the main thread, Ctrl-C
    stays as it is.
    """
    stop = stop_signal()
    found, before = Interrupt(), signal.getsignal(stop)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield found
        return

    def pressed(kind: int, frame: FrameType | None) -> None:
        if found.requested:
            before(kind, frame)
        found.requested = True
        if isinstance(before, Second):
            before.pressed = True

    signal.signal(stop, pressed)
    try:
        yield found
    finally:
        signal.signal(stop, before)


@contextmanager
def at_once(last_words: str) -> Iterator[None]:
    """While the block runs, let a second Ctrl-C end the process with one line and exit code 130.

    This applies only where Ctrl-C has Python's own handler, in the main thread, and not below ``torchrun``. It forwards
    every Ctrl-C to processes that have received it already, and ends them itself when they take too long.

    Args:
        last_words: the line to print.
    """
    ours = threading.current_thread() is threading.main_thread() and "RANK" not in os.environ
    stop = stop_signal()
    if not ours or signal.getsignal(stop) is not signal.default_int_handler:
        yield
        return
    signal.signal(stop, Second(last_words))
    try:
        yield
    finally:
        signal.signal(stop, signal.default_int_handler)
