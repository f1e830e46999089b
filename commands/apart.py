"""Calls in processes of their own: results as they come, and a death is an answer too."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from ..errors import EnvironmentDiedError

T = TypeVar("T")


def apart(
    function: Callable[..., T], calls: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[tuple[tuple[Any, ...], T | Exception]]:
    """``function(*call)`` for every call, each in a fresh process; pairs of call and result as they come.

    A call that raises, or whose process dies (``EnvironmentDiedError``), gives the exception in place of a result and
    disturbs no other. Leaving the loop early ends the processes.

    Args:
        function: importable by name, as its arguments and results must be picklable.
        calls: the arguments of each call.
        workers: how many processes at once.
    """
    running: list[BaseProcess] = []
    with ThreadPoolExecutor(max(1, min(workers, len(calls)))) as threads:
        pending = {threads.submit(_call, function, call, running): call for call in calls}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()


def _call(function: Callable[..., T], call: tuple[Any, ...], running: list[BaseProcess]) -> T | Exception:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, call))
    running.append(process)
    # The mask is inherited: Ctrl-C is for the parent, which then ends its children. Starting the tracker lifts it.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    sender.close()
    try:
        answer: T | Exception = receiver.recv()
    except EOFError:
        process.join()
        return EnvironmentDiedError(f"its process died with exit code {process.exitcode}")
    finally:
        process.join()
        running.remove(process)
        receiver.close()
    return answer


def _answer(sender: Connection, function: Callable[..., Any], call: tuple[Any, ...]) -> None:
    try:
        answer = function(*call)
    except Exception as error:
        answer = error
    sender.send(answer)
