"""Learning as a critical section, which Ctrl-C must not interrupt midway."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TornError(asyncio.CancelledError):
    """Raised when a second Ctrl-C interrupts a critical section; the resulting state must be discarded."""


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end, and put off a cancellation (Ctrl-C) until the first wait after this one.

    The learned state is thus complete, and the caller records it before it stops.

    Raises:
        TornError: The event loop is being closed, and with it the work.
    """
    task, caller = asyncio.ensure_future(work), asyncio.current_task()
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])  # not ``await task``, which would pass the cancellation on to the work
        except asyncio.CancelledError:
            cancelled = True
            if caller is not None:
                caller.uncancel()
    if task.cancelled():
        raise TornError
    if cancelled and caller is not None and task.exception() is None:
        caller.cancel()
    return task.result()
