"""One event loop for all sandboxes, on one thread that lives as long as the process.

Sandboxes are used from any event loop, or without one, but a sandbox's streams belong to one loop. Also, a process that
was started with ``--die-with-parent`` dies with the *thread* that started it (containers/bubblewrap#692).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import lru_cache
from typing import Any, Self, TypeVar

from ..errors import ToolError, UsageError

T = TypeVar("T")
THREAD = "turnwise-sandboxes"


async def through(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` on the sandboxes' loop, from any loop; cancelling this cancels it."""
    if threading.current_thread().name == THREAD:
        return await work
    return await asyncio.wrap_future(_sent(work))


class Home:
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


async def aside(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Run ``work`` on another thread and return its result; on this thread if the interpreter is shutting down.

    Args:
        work: blocking function.
        threads: executor; the loop's own if omitted.
    """
    if not threading.main_thread().is_alive():
        return work()
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, for synchronous code."""
    return _sent(work).result()


def leave(work: Coroutine[Any, Any, object]) -> None:
    """Run ``work`` on the sandboxes' loop without waiting: for finalizers, which may run on any thread."""
    with suppress(UsageError):  # what belongs to another process is that one's to end
        _sent(work)


def _sent(work: Coroutine[Any, Any, T]) -> Future[T]:
    process, loop = _begun()
    if process != os.getpid():  # its thread is not in this process: a caller would wait forever
        work.close()
        raise UsageError("sandboxes do not survive os.fork(): start processes by spawn or forkserver")
    return asyncio.run_coroutine_threadsafe(work, loop)


@lru_cache(maxsize=1)
def _begun() -> tuple[int, asyncio.AbstractEventLoop]:
    """Return the process in which the loop runs, and the loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=THREAD, daemon=True).start()
    return os.getpid(), loop
