"""A loop on a thread: usable from anywhere, cleanups run to their end, and a fork gets an error instead of a hang."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading

import pytest

from turnwise.errors import UsageError
from turnwise.loop_thread import LoopThread

LOOP = LoopThread("turnwise-test-loop", "things")


async def where() -> str:
    return threading.current_thread().name


def test_work_runs_on_the_thread_from_any_loop_and_from_none() -> None:
    assert LOOP.wait(where()) == "turnwise-test-loop"
    for _ in range(2):  # two loops, one after the other
        assert asyncio.run(LOOP.run(where())) == "turnwise-test-loop"
    assert not LOOP.is_current


def test_work_on_the_thread_itself_runs_at_once() -> None:
    async def nested() -> str:
        return await LOOP.run(where())

    assert LOOP.wait(nested()) == "turnwise-test-loop"


def test_a_cancelled_call_finishes_its_cleanup() -> None:
    cleaned = threading.Event()
    began = threading.Event()

    async def work() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(3):  # each await would be cancelled again by a scope that cancels until it is left
                await asyncio.sleep(0)
            cleaned.set()

    async def cancel() -> None:
        call = asyncio.ensure_future(LOOP.run(work()))
        await asyncio.to_thread(began.wait)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()

    asyncio.run(cancel())
    assert cleaned.wait(60)


def test_submitted_work_is_not_waited_for() -> None:
    gate, ended = threading.Event(), threading.Event()

    async def work() -> None:
        await asyncio.to_thread(gate.wait)
        ended.set()

    LOOP.submit(work())
    assert not ended.is_set()
    gate.set()
    assert ended.wait(60)


def test_a_wait_that_times_out_says_so() -> None:
    with pytest.raises(TimeoutError):
        LOOP.wait(asyncio.Event().wait(), 0.01)


def _in_a_fork(answers: multiprocessing.SimpleQueue[str]) -> None:
    LOOP.submit(where())  # belongs to the parent: nothing to do, and no error
    try:
        LOOP.wait(where())
    except UsageError as error:
        answers.put(str(error))
    else:
        answers.put("no error")


def test_a_fork_gets_an_error_instead_of_a_hang() -> None:
    LOOP.wait(where())
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=_in_a_fork, args=(answers,))
    child.start()
    assert answers.get() == "things do not survive os.fork(): start processes by spawn or forkserver"
    child.join()
    assert child.exitcode == 0
