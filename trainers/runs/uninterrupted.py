"""Learning that waits for something, and must not stop half-way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end; a cancellation meanwhile, which is what Ctrl-C becomes, is raised only then.

    A step of learning that samples on the way is cut nowhere, so that a checkpoint is always of a whole step.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except BaseException:
            if not task.done():
                raise
    if cancelled is not None and (task.cancelled() or task.exception() is None):
        raise cancelled
    return task.result()
