"""Play many episodes on Ray workers, and watch the memory of the driver, the workers and the object store.

    python benchmarks/cluster_memory.py --episodes 10000
    python benchmarks/cluster_memory.py --episodes 2000 --tokens 32000   # 325 kB an episode, through the object store

Ray sends answers of up to 100 kB without its object store, so the oracle's short episodes never touch it. With
``--tokens``, episodes have 50 turns of a policy that answers at once.

Each line is the state after a tenth of the episodes. What grows from the second tenth to the last grows with every
episode; the first tenth fills caches.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from contextlib import aclosing
from typing import Any

import psutil
import ray
from scale import Counting, Latent

import turnwise as tw
from turnwise.agents.scripted import OracleAgent
from turnwise.envs.registry import make
from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.options import RolloutsConfig, RunOptions
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.stats import RunStats

ENV = "turnwise/Maze-v0"
PARTS, TURNS = 10, 50
MB = 1e6


def object_store() -> float:
    """Return the megabytes of the object store in use, as Ray's scheduler counts them."""
    name = "object_store_memory"
    return float(ray.cluster_resources()[name] - ray.available_resources().get(name, 0.0)) / MB


async def memory(pool: Any) -> dict[str, float]:
    """Return megabytes of the driver, of all workers and of the object store."""
    answers = await asyncio.gather(*(_used(worker.actor) for worker in pool.workers))
    own = psutil.Process().memory_info().rss
    return {"driver": own / MB, "workers": sum(answers) / MB, "store": await asyncio.to_thread(object_store)}


async def _used(actor: Any) -> int:
    _, used = await actor.ping.remote(measure=True)
    return int(used)


def mazes() -> list[tw.TaskSpec]:
    """Return a thousand mazes."""
    env = make(ENV)
    family = env.get_wrapper_attr("tasks")()
    env.close()
    return [family.spec(seed, level=3, split="train") for seed in range(1000)]


async def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seats", type=int, default=16, help="episodes of a worker at a time")
    parser.add_argument("--tokens", type=int, default=0, help="tokens of an episode of 50 turns; 0 for the oracle's")
    chosen = parser.parse_args()
    config = RolloutsConfig(engine="ray", workers=chosen.workers, episodes_per_worker=chosen.seats)
    if chosen.tokens:
        agent: Any = Latent(0.0, 0.0, chosen.tokens // TURNS)
        specs = [tw.TaskSpec("Counting", seed=seed) for seed in range(1000)]
        pool: Any = pool_of(config, Counting, env_kwargs={"turns": TURNS})
    else:
        agent, specs, pool = OracleAgent(), mazes(), pool_of(config, ENV)
    stats, found, began = RunStats(), list[dict[str, float]](), time.perf_counter()
    each = chosen.episodes // PARTS
    try:
        for part in range(PARTS):
            tasks = [specs[number % len(specs)] for number in range(part * each, (part + 1) * each)]
            highest = 0.0
            options = RunOptions(seed=part)
            async with aclosing(run_episodes(pool, agent, tasks, options=options, stats=stats)) as run:
                async for _ in run:
                    if stats.episodes % 100 == 0:
                        highest = max(highest, await asyncio.to_thread(object_store))
            now = await memory(pool) | {"highest": highest}
            found.append(now)
            shown = "  ".join(f"{name} {value:8.1f} MB" for name, value in now.items())
            print(f"{stats.episodes:6} episodes  {shown}  load {os.getloadavg()[0]:.1f}", flush=True)
    finally:
        await pool.close()
    growth = {name: (found[-1][name] - found[1][name]) / (8 * each) * 1e3 for name in ("driver", "workers", "store")}
    print("growth of an episode:", ", ".join(f"{name} {value:.2f} kB" for name, value in growth.items()))
    print(f"{stats.episodes} episodes in {time.perf_counter() - began:.0f} s; {dict(stats.outcomes)}; {pool.counters}")


if __name__ == "__main__":
    asyncio.run(main())
