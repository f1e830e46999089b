"""``Background``: one piece of work at a time beside the training, such as writing a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from ...logs import tell

LOG = logging.getLogger(__name__)


class Background:
    """Runs work in a thread, if enabled, and otherwise right away. What it raises, the next call raises.

    Args:
        enabled: whether to use a thread.
    """

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._running: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turnwise-checkpoint") if enabled else None

    def run(self, work: Callable[[], None]) -> None:
        """Start work; wait for the work before it."""
        self.wait()
        if self._thread is None:
            work()
        else:
            self._running = self._thread.submit(work)

    def wait(self) -> None:
        """Wait for the work that is running, and raise its error if it failed."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Wait for the work that is running; its error is only reported, since another may be ending the run."""
        try:
            self.wait()
        except Exception as error:
            tell(LOG, "remark", f"warning: {error}")
        if self._thread is not None:
            self._thread.shutdown()

    def check(self) -> None:
        """Raise the error of finished work, without waiting."""
        if self._running is not None and self._running.done():
            self.wait()
