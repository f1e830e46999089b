"""Run calls in separate processes: results arrive as they finish, and a dead process becomes an exception."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from ..errors import EnvironmentDiedError

T = TypeVar("T")


def subprocess_map(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[tuple[tuple[Any, ...], T | Exception]]:
    """Run ``function(*call)`` for every call, each in a new process, and yield pairs of call and result.

    Pairs are yielded as calls finish. If a call raises, or its process dies (``EnvironmentDiedError``), its pair has
    the exception in place of a result; other calls continue. Leaving the loop early ends the processes.

    Args:
        function: a function that can be imported by name, with picklable arguments and results.
        calls: the arguments of each call.
        workers: the number of processes at a time.
    """
    family = _Family()
    with ThreadPoolExecutor(max(1, min(workers, len(calls)))) as threads:
        pending = {threads.submit(family.answer, function, call): call for call in calls}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            family.end()


class _Family:
    """The running processes. After ``end``, all have been terminated and none can start."""

    def __init__(self) -> None:
        self._alive: list[BaseProcess] = []
        self._ended = False
        self._lock = threading.Lock()

    def answer(self, function: Callable[..., T], call: tuple[Any, ...]) -> T | Exception:
        """Return the result of a call in a new process."""
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_answer, args=(sender, function, call))
        with receiver:
            if not self._start(process):
                return EnvironmentDiedError("its process was not started")
            sender.close()
            try:
                answer: T | Exception = receiver.recv()
            except EOFError:
                process.join()
                answer = EnvironmentDiedError(f"its process died with exit code {process.exitcode}")
        process.join()
        return answer

    def end(self) -> None:
        """End every process."""
        with self._lock:
            self._ended = True
            for process in self._alive:
                process.terminate()

    def _start(self, process: BaseProcess) -> bool:
        with self._lock:
            if self._ended:
                return False
            # The mask is inherited: Ctrl-C is for the parent, which then ends its children.
            resource_tracker.ensure_running()  # now, since its start lifts the mask
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            process.start()
            self._alive.append(process)
            return True


def _answer(sender: Connection, function: Callable[..., Any], call: tuple[Any, ...]) -> None:
    try:
        answer = function(*call)
    except Exception as error:
        answer = error
    sender.send(answer)
