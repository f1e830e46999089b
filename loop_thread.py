"""Event loops beside synchronous code: one on a daemon thread, and the refusal to start one inside another."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cached_property
from typing import Any, TypeVar

from .errors import UsageError

T = TypeVar("T")


def refuse_running_loop(message: str) -> None:
    """Raise ``UsageError`` with this message in code that an event loop runs, where ``asyncio.run`` would fail."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(message)


class LoopThread:
    """One event loop that starts with its first use and lives as long as the process.

    Uses asyncio's own thread-safe calls, not anyio's ``BlockingPortal``: cancelling a call there cancels every await
    of its cleanup again, so that a sandbox whose command was cancelled would not be closed.

    Args:
        name: of the thread.
        owner: what runs on the loop, in the plural, for the error after a fork: ``"sandboxes"``.
    """

    def __init__(self, name: str, owner: str) -> None:
        self.name, self._owner = name, owner

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread().name == self.name

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` on this loop, from any loop; cancelling the call cancels ``work``.

        Raises:
            UsageError: this process is a fork of the one that has the thread.
        """
        if self.is_current:
            return await work
        return await asyncio.wrap_future(self.start(work))

    def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Return the result of ``work``, for synchronous code.

        Args:
            work: coroutine to run on this loop.
            seconds: timeout; ``None`` waits until it ends.

        Raises:
            TimeoutError: ``work`` takes longer; it continues to run.
            UsageError: this process is a fork of the one that has the thread.
        """
        return self.start(work).result(seconds)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` and return its future; cancelling that cancels ``work``.

        Args:
            work: coroutine to run on this loop.

        Raises:
            UsageError: this process is a fork of the one that has the thread.
        """
        process, loop = self._started
        if process != os.getpid():  # fork() copies no threads: the caller would wait forever
            work.close()
            raise UsageError(f"{self._owner} do not survive os.fork(): start processes by spawn or forkserver")
        return asyncio.run_coroutine_threadsafe(work, loop)

    def submit(self, work: Coroutine[Any, Any, object]) -> None:
        """Start ``work`` without waiting for it: for finalizers, which may run on any thread, this one included."""
        process, loop = self._started
        if process == os.getpid() and not loop.is_closed():
            asyncio.run_coroutine_threadsafe(work, loop)
        else:
            work.close()  # the process that has the thread also owns what this would end

    @cached_property
    def _started(self) -> tuple[int, asyncio.AbstractEventLoop]:
        """The process that has the thread, and the loop."""
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name=self.name, daemon=True).start()
        return os.getpid(), loop
