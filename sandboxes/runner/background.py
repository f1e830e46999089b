"""Work in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ...errors import SandboxError, SandboxUnavailableError


class BackgroundTasks:
    """Tasks that are referenced until they end. A failure is ignored, since leftovers are reaped."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait until all tasks have ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)
            await asyncio.sleep(0)  # lets the tasks remove themselves


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except (SandboxError, SandboxUnavailableError):
        return
