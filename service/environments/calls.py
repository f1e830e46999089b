"""Calls under way in an episode: tasks of their own that several callers share, and steps in their caller's task."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, cast

from ...errors import RequestError

T = TypeVar("T")


class CallersStep(asyncio.Future[None]):
    """A step in its caller's own task. It ends with the step, not with that task, which may be a whole session."""

    def __init__(self) -> None:
        super().__init__()
        self.caller = cast("asyncio.Task[Any]", asyncio.current_task())

    def cancel(self, msg: Any = None) -> bool:
        """Interrupt the step."""
        return self.caller.cancel(msg)


async def shared(task: asyncio.Task[T]) -> T:
    """Wait for a shared task, which continues if this caller is cancelled."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise RequestError("the episode was closed meanwhile", code="lost") from None
        raise
