"""The signals that stop a command: Ctrl-C, and the two that count as it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

STOPS = (signal.SIGTERM, signal.SIGHUP)
"""Signals other than Ctrl-C's that ask a command to end."""


def stop_signal() -> signal.Signals:
    """Return the signal whose handler says what stopping means: SIGINT, or SIGTERM if SIGINT is ignored.

    A shell without job control, which is every script, starts background jobs with SIGINT ignored. It stays ignored,
    and SIGTERM then does what Ctrl-C does elsewhere: it waits for critical sections, and ends a run cleanly.
    """
    return signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT


class StopHandler:
    """Handler of Ctrl-C that raises ``KeyboardInterrupt``, and notes that it came, for ``run_until_stopped``."""

    def __init__(self) -> None:
        self.pressed = False

    def __call__(self, kind: int, frame: FrameType | None) -> None:
        self.pressed = True
        signal.default_int_handler(kind, frame)


def run_until_stopped(main: Coroutine[Any, Any, T]) -> T:
    """Do what ``asyncio.run`` does, also if SIGINT is ignored or has a ``StopHandler``.

    ``asyncio.run`` cancels ``main`` on Ctrl-C only where SIGINT has Python's own handler. Any other one raises
    ``KeyboardInterrupt`` at the current line, amid the event loop. A second Ctrl-C does what it did before.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed, and ``main`` has ended as a canceled coroutine does.
    """
    stop = stop_signal()
    before = signal.getsignal(stop)
    handler = before if isinstance(before, StopHandler) else StopHandler()
    usual = before is not handler and (stop is signal.SIGINT or before is not signal.default_int_handler)
    if usual or threading.current_thread() is not threading.main_thread():
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
            if handler.pressed or not running or running[0].done():
                handler(kind, frame)
                return
            handler.pressed = True
            running[0].cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes the loop, which may be asleep

        signal.signal(stop, pressed)
        try:
            return runner.run(known())
        except asyncio.CancelledError:
            if not handler.pressed:
                raise
            raise KeyboardInterrupt from None
        finally:
            signal.signal(stop, before)


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
