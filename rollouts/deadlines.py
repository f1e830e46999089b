"""Waiting outside of an episode's time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def unhurried(waiting: Awaitable[None], deadline: asyncio.Timeout | None) -> None:
    """Wait without a clock running.

    Args:
        waiting: call to wait for.
        deadline: clock that stops meanwhile, if there is one.
    """
    when = deadline.when() if deadline is not None else None
    if deadline is None or when is None:
        await waiting
        return
    loop = asyncio.get_running_loop()
    left = when - loop.time()
    deadline.reschedule(None)
    try:
        await waiting
    finally:  # also after an error: closing the rest may hang
        deadline.reschedule(loop.time() + left)
