"""The keeper of a worker's place, beside a worker that is made up."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from turnwise.rollouts.options import RolloutsConfig

pytest.importorskip("ray")

from turnwise.rollouts.cluster.keeper import Keeper, LiveWorker


async def test_the_message_of_a_death_counts_the_episodes_that_the_worker_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def pong() -> tuple[int, int]:
        return 2, 0

    actor: Any = SimpleNamespace(ping=SimpleNamespace(remote=lambda measure: pong()))
    staff: Any = SimpleNamespace()
    worker = LiveWorker(actor, 8, 1)
    worker.playing, worker.leases = {"a": 1, "a tree": 4}, 2
    keeper = Keeper(staff, RolloutsConfig(engine="ray"), b"", "key", "")
    with caplog.at_level(logging.WARNING):
        watching = asyncio.create_task(keeper._watched(worker))
        await asyncio.sleep(0)
        worker.leases = 0  # those who wait for answers return their leases before the keeper is woken
        worker.mark_lost("killed")
        assert await watching
    assert "a worker died with 5 episodes" in caplog.text


async def test_a_worker_whose_end_is_interrupted_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    closing, killed, aborted = asyncio.Event(), list[Any](), list[bool]()

    async def hangs() -> None:
        closing.set()
        await asyncio.Event().wait()

    actor: Any = SimpleNamespace(close=SimpleNamespace(remote=hangs))
    staff: Any = SimpleNamespace(ended=lambda worker: None)
    monkeypatch.setattr("ray.kill", killed.append)
    keeper = Keeper(staff, RolloutsConfig(engine="ray"), b"", "key", "")
    worker = keeper._worker = LiveWorker(actor, 8, 1)
    transport = SimpleNamespace(abort=lambda: aborted.append(True))
    worker.channel = SimpleNamespace(close=lambda why: None, transport=transport)  # type: ignore[assignment]
    ending = asyncio.create_task(keeper._end(actor))
    await closing.wait()
    ending.cancel()  # as by Ctrl-C while a retired worker ends
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert (killed, aborted) == ([actor], [True])
