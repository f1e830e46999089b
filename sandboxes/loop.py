"""One event loop for all sandboxes, on one thread that lives as long as the process.

Sandboxes are used from any event loop, or without one, but a sandbox's streams belong to one loop. Also, a process that
was started with ``--die-with-parent`` dies with the *thread* that started it (containers/bubblewrap#692).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Self, TypeVar

from ..errors import ToolError
from ..loop_thread import LoopThread

T = TypeVar("T")
LOOP = LoopThread("turnwise-sandboxes", "sandboxes")
"""The event loop of all sandboxes; ``LOOP.wait`` runs one of their coroutines from synchronous code."""


async def handed_over(make: Callable[[], Coroutine[Any, Any, T]], end: Callable[[T], Awaitable[None]]) -> T:
    """Return what a coroutine makes on the sandboxes' loop, or end it if the caller was canceled meanwhile.

    It may be made, and on its way between the loops, when the caller is canceled. Then nothing else knows it.

    Args:
        make: coroutine function that makes it, and leaves nothing if it is canceled.
        end: coroutine function that ends it.
    """
    made = list[T]()

    async def kept() -> T:
        made.append(await make())
        return made[0]

    async def ended() -> None:
        for each in made:
            await end(each)

    try:
        return await LOOP.run(kept())
    except asyncio.CancelledError:
        LOOP.submit(ended())  # begins after ``kept`` was canceled, which then adds nothing
        raise


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
