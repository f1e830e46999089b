"""One event loop for all sandboxes, on one thread that lives as long as the process.

Sandboxes are used from any event loop, or without one, but a sandbox's streams belong to one loop. Also, a process that
was started with ``--die-with-parent`` dies with the *thread* that started it (containers/bubblewrap#692).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Self, TypeVar

from ..errors import ToolError
from ..loop_thread import LoopThread

T = TypeVar("T")
LOOP = LoopThread("turnwise-sandboxes", "sandboxes")
"""The event loop of all sandboxes; ``LOOP.wait`` runs one of their coroutines from synchronous code."""


class LoopBoundCall:
    """Makes a function of the current loop callable from the sandboxes' loop, one call at a time.

    On exit, no call is running: the caller has cancelled it, and it has ended.

    Args:
        function: function to call.
    """

    def __init__(self, function: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._function, self._loop, self._turn, self._left = function, asyncio.get_running_loop(), asyncio.Lock(), False

    async def call(self, argument: bytes) -> bytes:
        """Call the function on its own loop, from the sandboxes' loop."""
        if self._loop is asyncio.get_running_loop():
            return await self._here(argument)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._here(argument), self._loop))

    async def _here(self, argument: bytes) -> bytes:
        async with self._turn:
            if self._left:
                raise ToolError("the function no longer answers")
            return await self._function(argument)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        async with self._turn:
            self._left = True


async def to_thread(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Run ``work`` on another thread and return its result; on this thread if the interpreter is shutting down.

    Args:
        work: blocking function.
        threads: executor; the loop's own if omitted.
    """
    if not threading.main_thread().is_alive():
        return work()
    return await asyncio.get_running_loop().run_in_executor(threads, work)
