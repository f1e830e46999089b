"""Learning that waits for something, and must not stop half-way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TornError(asyncio.CancelledError):
    """What must not stop half-way was made to, by a second Ctrl-C: of the state it left nothing is to be kept."""


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end; a cancellation meanwhile, which is what Ctrl-C becomes, is raised only then.

    A step of learning that samples on the way is cut nowhere, so that a checkpoint is always of a whole step.

    Raises:
        TornError: the event loop is being closed, and with it the work.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise TornError from error
            cancelled = error
        except BaseException:
            if not task.done():
                raise
    if task.cancelled():
        raise TornError from cancelled
    if cancelled is not None and task.exception() is None:
        raise cancelled
    return task.result()
