"""Workers on Ray play an environment of several servers, each server as much as it has places."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from turnwise.agents.scripted import FunctionAgent
from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.episode import Episode, Outcome

from ..service.environment_servers import serving
from .ray_cluster import ENV, on, played, tasks

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")]


def down(text: str) -> str:
    return "move down"


def texts(episodes: list[Episode]) -> list[list[str]]:
    return sorted([turn.observation.text for turn in episode.turns] for episode in episodes)


@pytest.mark.shift("ray")
async def test_workers_play_on_all_servers(cluster: Any) -> None:
    starts: list[int] = [0, 0]
    with serving([ENV], tokens=(), capacity=8) as one, serving([ENV], tokens=(), capacity=8) as two:
        for number, server in enumerate((one, two)):
            reset = server.episodes.reset

            async def counted(*args: Any, number: int = number, reset: Any = reset, **kwargs: Any) -> Any:
                starts[number] += 1
                for _ in range(200):  # a worker whose episodes end before the next begins needs one server
                    if min(starts):
                        break
                    await asyncio.sleep(0.05)
                return await reset(*args, **kwargs)

            server.episodes.reset = counted
        id = f"turnwise://{one.address.removeprefix('ws://')},{two.address.removeprefix('ws://')}/{ENV}"
        pool: Any = pool_of(on(), id)
        try:
            there = await played(pool, FunctionAgent(down), tasks(8))
        finally:
            await pool.close()
    here = await played(ENV, FunctionAgent(down), tasks(8))
    assert [episode.outcome for episode in there] == [Outcome.COMPLETED] * 16
    assert texts(there) == texts(here)
    assert min(starts) > 0, f"one server got no episode: {starts}"
