"""Work that goes on while nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ...errors import SandboxError, SandboxUnavailableError


class Behind:
    """Tasks that are held until they have ended. One that fails is passed over: what it leaves is reaped."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin it."""
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Return when all has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)
            await asyncio.sleep(0)  # they take themselves out


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except (SandboxError, SandboxUnavailableError):
        return
