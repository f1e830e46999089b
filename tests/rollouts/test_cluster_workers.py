"""The seats of workers, beside workers that are made up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from turnwise.errors import InfrastructureError
from turnwise.rollouts.options import RolloutsConfig

pytest.importorskip("ray")

from turnwise.rollouts.cluster import workers as module
from turnwise.rollouts.cluster.keeper import LiveWorker
from turnwise.rollouts.cluster.workers import Workers


class TwoPlaces(Workers):
    """Has two places for workers, and looks for none."""

    @property
    def target(self) -> int:
        return 2

    async def _follow(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
async def workers() -> AsyncIterator[TwoPlaces]:
    made = TwoPlaces(RolloutsConfig(engine="ray"), b"", "key")
    yield made
    await made.close()


@pytest.mark.parametrize("cycles", range(4))
async def test_a_cancellation_that_meets_a_change_ends_the_wait_for_another_node(
    workers: TwoPlaces, cycles: int
) -> None:
    only = LiveWorker(None, 1, 1, "node")
    workers.began(only)
    task = asyncio.create_task(workers.acquire(only))
    for _ in range(4):
        await asyncio.sleep(0)
    workers._wake()
    for _ in range(cycles):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await task
    assert only.leases == 0


async def test_a_cluster_that_does_not_answer_ends_the_wait_for_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Any:
        raise RuntimeError("the head does not answer")

    monkeypatch.setattr(module, "nodes_now", gone)
    monkeypatch.setattr("ray.available_resources", gone)
    workers = Workers(RolloutsConfig(engine="ray", start_timeout=0.01), b"", "key")
    workers._without_since -= 1
    try:
        async with asyncio.timeout(10):
            with pytest.raises(InfrastructureError, match="the head does not answer"):
                await workers.acquire()
    finally:
        await workers.close()
