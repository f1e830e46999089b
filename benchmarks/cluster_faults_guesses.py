"""Episodes of MiniWoB++'s ``guess-number`` in Chromium, to clone: the page has no oracle, and guessing needs none.

A clone that has learned the form of the two actions and the direction of the answers guesses right within some turns or
does not. So returns and lengths vary, however little a model has learned.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from turnwise.agents.agent import EpisodeContext
from turnwise.agents.scripted import FunctionAgent
from turnwise.envs.registry import make
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.recording import record_episodes
from turnwise.rollouts.store import EpisodeStore
from turnwise.tasks.spec import TaskSpec

ENV = "turnwise/MiniWoB-GuessNumber-v1"
SEED = 500_000
"""First seed of the demonstrations' tasks."""


def guesser(context: EpisodeContext) -> Any:
    """Return a function that enters a number that the last answer allows, and submits it."""

    def act(observation: str) -> str:
        if re.search(r'value="\d".*focused', observation):
            return "click('3')"
        side = re.search(r'number is (higher|lower) than\s+\[1\] span "(\d)"', observation)
        low, high = 0, 9
        if side is not None:
            low, high = (int(side[2]) + 1, 9) if side[1] == "higher" else (0, int(side[2]) - 1)
        return f"fill('2', '{context.rng.randint(low, high)}')"

    return act


def recorded(store: Path, count: int, max_turns: int) -> None:
    """Play until a store holds ``count`` episodes.

    Args:
        store: folder of the store.
        count: number of episodes.
        max_turns: limit of actions per episode.
    """
    env = make(ENV)
    family = env.get_wrapper_attr("tasks")()
    env.close()
    tasks = [family.spec(SEED + number, split="train") for number in range(count)]
    asyncio.run(_record(store, tasks, {"max_turns": max_turns}))


async def _record(store: Path, tasks: list[TaskSpec], env_kwargs: dict[str, Any]) -> None:
    options = RunOptions(concurrency=8, env_kwargs=env_kwargs)
    async with EnvPool.of(ENV, env_kwargs=env_kwargs) as pool:
        with EpisodeStore(store, run={"env": ENV, "env_kwargs": env_kwargs}) as opened:
            async for _ in record_episodes(pool, FunctionAgent(factory=guesser), tasks, opened, options=options):
                pass
