from __future__ import annotations

import asyncio

import pytest

from turnwise.errors import UsageError
from turnwise.trainers.learning.uninterrupted import TornError, uninterrupted


class Work:
    """Three steps with a wait before each."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = 0
        self.error = error

    async def run(self) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
            self.done += 1
        if self.error:
            raise self.error
        return "done"


async def test_what_is_not_disturbed_is_just_awaited() -> None:
    assert await uninterrupted(Work().run()) == "done"
    with pytest.raises(UsageError, match="no"):
        await uninterrupted(Work(UsageError("no")).run())


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancellation_waits_for_the_end(times: int) -> None:
    work = Work()
    task = asyncio.ensure_future(uninterrupted(work.run()))
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.done == 3, "the work went on to its end"


async def test_what_fails_while_being_cancelled_fails() -> None:
    task = asyncio.ensure_future(uninterrupted(Work(UsageError("broken")).run()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(UsageError, match="broken"):
        await task


async def test_what_is_cancelled_itself_is_torn() -> None:
    """As when an event loop is closed, which cancels all of its tasks: nothing of it may be saved as if whole."""
    task = asyncio.ensure_future(uninterrupted(Work().run()))
    await asyncio.sleep(0)
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()
    with pytest.raises(TornError):
        await task
