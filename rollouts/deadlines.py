"""Waiting outside of an episode's time limit, and whose cancellation it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def unhurried(waiting: Awaitable[T], deadline: asyncio.Timeout | None) -> T:
    """Wait without a clock running, and return the result.

    Args:
        waiting: call to wait for.
        deadline: clock that stops meanwhile, if there is one.
    """
    when = deadline.when() if deadline is not None else None
    if deadline is None or when is None:
        return await waiting
    loop = asyncio.get_running_loop()
    left = when - loop.time()
    deadline.reschedule(None)
    try:
        return await waiting
    finally:  # also after an error: closing the rest may hang
        deadline.reschedule(loop.time() + left)


def asked_to_stop() -> bool:
    """Whether the running task was canceled; otherwise a ``CancelledError`` in it is of what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
