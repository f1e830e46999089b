"""One event loop, on one thread that lives as long as the process, where Chromium is driven and its pages are served.

Environments are used from any event loop, and from none; what Playwright holds belongs to one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar

from ....errors import UsageError

T = TypeVar("T")
THREAD = "turnwise-chromium"


async def through(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` on Chromium's loop, from any loop; cancelling this cancels it.

    Raises:
        UsageError: this process is a fork of the one whose loop it is.
    """
    if threading.current_thread().name == THREAD:
        return await work
    process, loop = _begun()
    if process != os.getpid():  # its thread is not in this process: whoever waited for it would wait for ever
        work.close()
        raise UsageError("browsers do not survive os.fork(): start processes by spawn or forkserver")
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def wait(work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
    """The result of ``work``, for code that is not asynchronous.

    Args:
        work: to be done on Chromium's loop.
        seconds: after which ``TimeoutError`` is raised.
    """
    process, loop = _begun()
    if process != os.getpid():
        work.close()
        raise UsageError("browsers do not survive os.fork(): start processes by spawn or forkserver")
    return asyncio.run_coroutine_threadsafe(work, loop).result(seconds)


def leave(work: Coroutine[Any, Any, object]) -> None:
    """Have ``work`` done there, and wait for nothing: for finalisers, which may run on any thread, also on that one."""
    process, loop = _begun()
    if process == os.getpid() and not loop.is_closed():
        asyncio.run_coroutine_threadsafe(work, loop)
    else:
        work.close()  # what belongs to another process is that one's to end


@lru_cache(maxsize=1)
def _begun() -> tuple[int, asyncio.AbstractEventLoop]:
    """The process in which the loop runs, and the loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=THREAD, daemon=True).start()
    return os.getpid(), loop
