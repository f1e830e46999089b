"""One event loop, on one thread that lives as long as the process, where all sandboxes are.

Sandboxes are used from any event loop, and from none; a sandbox's streams belong to one. And a process that was started
with ``--die-with-parent`` dies with the *thread* that started it (containers/bubblewrap#692).
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
    """A function of the loop on which this is entered, for calls from the sandboxes' loop, one at a time.

    When it is left, no call is going on: whoever called has cancelled it, and it has ended.

    Args:
        function: what is called.
    """

    def __init__(self, function: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._function, self._loop, self._turn, self._left = function, asyncio.get_running_loop(), asyncio.Lock(), False

    async def call(self, argument: bytes) -> bytes:
        """Call it, on its own loop; on the sandboxes' loop."""
        if self._loop is asyncio.get_running_loop():
            return await self._here(argument)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._here(argument), self._loop))

    async def _here(self, argument: bytes) -> bytes:
        async with self._turn:
            if self._left:
                raise ToolError("nobody answers any more")
            return await self._function(argument)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        async with self._turn:
            self._left = True


async def aside(work: Callable[[], T], threads: Executor | None = None) -> T:
    """What ``work`` returns, done on another thread; while the interpreter ends none can be had, and then on this one.

    Args:
        work: blocks.
        threads: whose; the loop's own if omitted.
    """
    if not threading.main_thread().is_alive():
        return work()
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def wait(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, for code that is not asynchronous."""
    return _sent(work).result()


def leave(work: Coroutine[Any, Any, object]) -> None:
    """Have ``work`` done there, and wait for nothing: for finalisers, which may run on any thread, also on that one."""
    with suppress(UsageError):  # what belongs to another process is that one's to end
        _sent(work)


def _sent(work: Coroutine[Any, Any, T]) -> Future[T]:
    process, loop = _begun()
    if process != os.getpid():  # its thread is not in this process: whoever waited for it would wait for ever
        work.close()
        raise UsageError("sandboxes do not survive os.fork(): start processes by spawn or forkserver")
    return asyncio.run_coroutine_threadsafe(work, loop)


@lru_cache(maxsize=1)
def _begun() -> tuple[int, asyncio.AbstractEventLoop]:
    """The process in which the loop runs, and the loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=THREAD, daemon=True).start()
    return os.getpid(), loop
