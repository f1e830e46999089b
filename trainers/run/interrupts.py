"""Ctrl-C in a run: the first one ends it whole, which may take a while, and the second at once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
CURSOR = "\n\x1b[?25h"
"""Shows the cursor again, which a progress bar hides."""


def interruptible(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run``, where a Ctrl-C after the first does what it did before: in a command, see ``at_once``.

    Otherwise that is a ``KeyboardInterrupt`` here and now, of which nothing is written: whatever was under way is torn.

    Raises:
        KeyboardInterrupt: after Ctrl-C, once ``main`` has ended as one does that is cancelled.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not isinstance(before, Second):
        return asyncio.run(main)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        running: list[asyncio.Task[T]] = []

        async def known() -> T:
            task = asyncio.current_task()
            assert task is not None
            running.append(task)
            return await main

        def pressed(kind: int, frame: FrameType | None) -> None:
            if before.pressed or not running or running[0].done():
                before(kind, frame)
                return
            before.pressed = True
            running[0].cancel()
            loop.call_soon_threadsafe(lambda: None)  # it may be asleep

        signal.signal(signal.SIGINT, pressed)
        try:
            return runner.run(known())
        except asyncio.CancelledError:
            if not before.pressed:
                raise
            raise KeyboardInterrupt from None
        finally:
            signal.signal(signal.SIGINT, before)


class Second:
    """What Ctrl-C does in a command: first it is a ``KeyboardInterrupt``, then the end of the process.

    Nothing is tidied up then, just as if the process had been killed, which is what runs are made to survive: waiting
    for what is under way is what the person has had enough of, and unwinding it would save what is half done.

    Args:
        last_words: one line for standard error.
    """

    def __init__(self, last_words: str) -> None:
        self.last_words = last_words
        self.pressed = False

    def __call__(self, kind: int, frame: FrameType | None) -> None:
        if self.pressed:
            # Not by ``print``: a signal may fall into the midst of one, and a second one within is an error.
            shown = CURSOR if os.isatty(2) else ""
            os.write(2, f"{shown}{self.last_words}\n".encode())
            os._exit(INTERRUPTED)
        self.pressed = True
        signal.default_int_handler(kind, frame)


@contextmanager
def at_once(last_words: str) -> Iterator[None]:
    """While the block runs, let a second Ctrl-C end the process with one line and exit code 130.

    Only where Ctrl-C is Python's own, in the main thread; and not below ``torchrun``, which tells its processes again
    of every Ctrl-C that they have heard already, and ends them itself when they take too long.

    Args:
        last_words: that line.
    """
    ours = threading.current_thread() is threading.main_thread() and "RANK" not in os.environ
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, Second(last_words))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
