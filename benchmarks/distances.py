"""Cost per step of an environment at three distances: in this process, in a child process, over the socket.

    python benchmarks/distances.py                       # five families, 40 episodes each, a table
    python benchmarks/distances.py --episodes 8 --ids turnwise/Maze-v0

Each distance plays the same tasks with the oracle, one episode at a time, and the script fails unless all of them
return the same bytes. A step over the socket is measured twice: the server's environment in a thread, which is the cost
of the socket alone, and in a process, as ``turnwise serve`` runs it. Server and client share this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

import turnwise as tw
from turnwise.envs.plain_json import plain
from turnwise.evals.sampling import sample_tasks
from turnwise.loop_thread import LoopThread
from turnwise.rollouts.pool import EnvPool
from turnwise.service.environments.server import EnvironmentServer
from turnwise.service.environments.settings import ServeConfig

IDS = ["turnwise/Maze-v0", "turnwise/Apps-v2", "turnwise/WebHTML-v1", "turnwise/Search-v1", "turnwise/CodeSQL-v2"]
KEY = "benchmark-operator-key"
LOOP = LoopThread("distances", "servers")


async def played(pool: EnvPool, tasks: Sequence[tw.TaskSpec], actions: dict[int, list[Any]]) -> tuple[str, list[float]]:
    """Play every task with recorded actions, or record the oracle's; return the answers as text, and seconds."""
    seconds, answers = list[float](), list[Any]()
    async with pool:
        for number, task in enumerate(tasks):
            host = await pool.take()
            observation, info = await host.reset(task)
            answers.append((repr(observation), _text(info)))
            recorded = actions.setdefault(number, [])
            for turn in range(200):
                if turn == len(recorded):
                    recorded.append(await host.oracle())
                started = time.perf_counter()
                observation, reward, terminated, truncated, info = await host.step(recorded[turn])
                seconds.append(time.perf_counter() - started)
                answers.append((repr(observation), reward, terminated, truncated, _text(info)))
                if terminated or truncated:
                    break
            pool.give(host, reusable=True)
    return repr(answers), seconds


def _text(info: Any) -> str:
    return json.dumps({key: repr(value) if key == "score" else value for key, value in info.items()}, default=plain)


def compare(id: str, episodes: int) -> list[tuple[str, list[float]]]:
    """Return the seconds of each distance, after checking that all return the same bytes."""
    env = tw.make(id)
    tasks = sample_tasks(env.tasks(), episodes).tasks  # type: ignore[attr-defined]
    env.close()
    actions: dict[int, list[Any]] = {}
    same, seconds = asyncio.run(played(EnvPool.of(id), tasks, actions))
    found = [("in process", seconds)]
    there, seconds = asyncio.run(played(EnvPool.of(id, isolation="process"), tasks, actions))
    found.append(("child process", seconds))
    assert there == same, f"{id}: a child process answers differently"
    for isolation in ("thread", "process"):
        config = ServeConfig(isolation=isolation, capacity=2)  # type: ignore[arg-type]
        server = EnvironmentServer([id], config, tokens=["benchmark-client-token"], operator=KEY)
        remote = f"turnwise://{LOOP.wait(server.start()).removeprefix('ws://')}/{id}"
        there, seconds = asyncio.run(played(EnvPool.of(remote), tasks, actions))
        LOOP.wait(server.aclose())
        found.append((f"socket, {isolation}", seconds))
        assert there == same, f"{id}: the server answers differently"
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", nargs="+", default=IDS, help="environments (default: five families)")
    parser.add_argument("--episodes", type=int, default=40, help="episodes of each environment")
    chosen = parser.parse_args()
    os.environ["TURNWISE_TOKEN"] = KEY
    print("| environment | distance | steps | median ms | p99 ms |\n|---|---|---|---|---|")
    total = 0
    for id in chosen.ids:
        for place, seconds in compare(id, chosen.episodes):
            ordered = sorted(seconds)
            middle, last = statistics.median(ordered) * 1e3, ordered[int(0.99 * (len(ordered) - 1))] * 1e3
            print(f"| {id} | {place} | {len(seconds)} | {middle:.2f} | {last:.2f} |", flush=True)
        total += chosen.episodes
    print(f"\n{total} episodes, the same bytes at every distance.")


if __name__ == "__main__":
    main()
