"""Waiters on a change: first come, first woken, and no wake is lost."""

from __future__ import annotations

import asyncio

from turnwise.rollouts.cluster.waiters import Waiters


async def waiting(waiters: Waiters, count: int) -> list[asyncio.Task[None]]:
    """Return tasks that wait, in order."""
    tasks = [asyncio.create_task(waiters.wait()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def ended(tasks: list[asyncio.Task[None]]) -> list[bool]:
    """Return which tasks have ended, after all that can run has run."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


async def test_one_wake_wakes_the_one_that_has_waited_longest() -> None:
    waiters = Waiters()
    waiters.wake()  # wakes none: a wake is not kept
    tasks = await waiting(waiters, 3)
    waiters.wake()
    assert await ended(tasks) == [True, False, False]
    waiters.wake(every=True)
    assert await ended(tasks) == [True, True, True]


async def test_a_wake_of_a_cancelled_one_goes_to_the_next() -> None:
    waiters = Waiters()
    tasks = await waiting(waiters, 3)
    waiters.wake()
    tasks[0].cancel()  # at once: it was woken and never runs
    assert await ended(tasks) == [True, True, False], "a seat that is free must not stay so"
    assert tasks[0].cancelled()
    tasks[2].cancel()
    waiters.wake()
    assert await ended(tasks) == [True, True, True]
    waiters.wake()
    last = await waiting(waiters, 1)
    assert await ended(last) == [False], "a wake is not kept"
    last[0].cancel()
