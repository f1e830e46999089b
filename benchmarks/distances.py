"""Play the same episodes at three distances, compare every stored byte, and measure what a step costs at each.

    python benchmarks/distances.py                            # 5 families × 40 episodes, a table
    python benchmarks/distances.py --out runs/distances.jsonl # resumable: families in the file are not played again
    python benchmarks/distances.py --episodes 8 --ids turnwise/Maze-v0

The distances are in process, in a child process, on a Ray worker, and over a socket to ``turnwise serve`` in another
process, whose environments are in threads (the cost of the socket alone) or in processes (its default). Each plays the
same actions, one episode at a time: the oracle's, and in three of four episodes first two random ones, a text that is
not an action, or a call of a tool that does not exist. The stored rows must be equal except for times and, over the
socket, for ids that contain the environment's own. Every fourth episode is played again with a fork in the middle:
the fork plays on, then the episode does, with another action first, and every answer of both must be equal.

Prints one line for each episode that differs, with family, seed, turn and field, and then fails. ``ms in the
environment`` is the time of a step as the episode records it: on a Ray worker, that of the worker. ``ms of the run`` is
wall time divided by steps: resets, and whole episodes on their way to the worker and back, are part of it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distances_compare import differences, rows_of

import turnwise as tw
from turnwise.agents.agent import EpisodeContext
from turnwise.agents.scripted import FunctionAgent
from turnwise.envs.plain_json import plain
from turnwise.errors import ContractError
from turnwise.evals.sampling import sample_tasks
from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.hosts import Host
from turnwise.rollouts.options import RolloutsConfig, RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.recording import record_episodes
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.store import EpisodeStore, load_episodes

IDS = ["turnwise/Maze-v0", "turnwise/Apps-v2", "turnwise/WebHTML-v1", "turnwise/Search-v1", "turnwise/CodeSQL-v2"]
KEY = "benchmark-operator-key"
LOCAL, CHILD, RAY = "in process", "in a child process", "on a Ray worker"
SOCKET = {"thread": "over the socket (threads)", "process": "over the socket (processes)"}
NOT_AN_ACTION = tw.Action('Zażółć \U0001f642\u2028 <b>&amp;</b> "\x00\ud800')
NO_SUCH_TOOL = tw.Action(tool_calls=(tw.ToolCall("no_such_tool", {"a": [1, 1.0, -0.0, 5e-324, None, {"b": 10**20}]}),))


@dataclass(frozen=True)
class Script:
    """Actions of each task, by its digest."""

    actions: dict[str, tuple[tw.Action, ...]]

    def agent(self) -> FunctionAgent:
        """Return an agent that takes these actions, whatever it observes."""

        def opened(context: EpisodeContext) -> Any:
            left = iter(self.actions[context.task.digest])
            return lambda text: next(left, tw.Action("(the script has ended)"))

        return FunctionAgent(factory=opened)


async def written(id: str, tasks: Sequence[tw.TaskSpec]) -> Script:
    """Return the script of each task: what the oracle does, in most episodes after some mistakes."""
    actions: dict[str, tuple[tw.Action, ...]] = {}
    async with EnvPool.of(id) as pool:
        for number, task in enumerate(tasks):
            host = await pool.take()
            await host.reset(task)
            taken, over = list[tw.Action](), False
            while not over:
                taken.append(await _chosen(host, number, len(taken)))
                _, _, terminated, truncated, _ = await host.step(taken[-1])
                over = terminated or truncated
            actions[task.digest] = tuple(taken)
            pool.give(host, reusable=True)
    return Script(actions)


async def _chosen(host: Host, number: int, turn: int) -> tw.Action:
    if turn == 0 and number % 4 == 1:
        return NOT_AN_ACTION
    if turn == 0 and number % 4 == 2:
        return NO_SUCH_TOOL
    if turn < 2 and number % 4 == 3:
        return await host.random(turn)
    with contextlib.suppress(ContractError):
        return await host.oracle()
    return await host.random(turn)  # the mistakes have left no way


@dataclass(frozen=True)
class Played:
    """Results of one distance, and its times in seconds."""

    rows: list[dict[str, Any]]
    forked: list[dict[str, Any]]
    steps: list[float]
    wall: float
    fork: list[float]


async def played(pool: EnvPool, tasks: Sequence[tw.TaskSpec], script: Script, named: bool, forks: bool) -> Played:
    """Play every task into a store, and every fourth again with a fork in the middle."""
    options = RunOptions(concurrency=1, retries=0)
    with tempfile.TemporaryDirectory() as folder:
        async with pool:
            async for _ in run_episodes(pool, script.agent(), tasks[:1], options=RunOptions(concurrency=1, seed=1)):
                pass  # starts what the distance needs
            with EpisodeStore(folder) as store:
                began = time.perf_counter()
                async for _ in record_episodes(pool, script.agent(), tasks, store, options=options):
                    pass
                wall = time.perf_counter() - began
            forked, seconds = await _forked(pool, tasks[::4], script) if forks else ([], [])
        steps = [turn.seconds_env for episode in load_episodes(folder) for turn in episode.turns]
        return Played(rows_of(Path(folder), named=named), forked, steps, wall, seconds)


async def _forked(pool: EnvPool, tasks: Sequence[tw.TaskSpec], script: Script) -> tuple[list[Any], list[float]]:
    rows, seconds = list[Any](), list[float]()
    for task in tasks:
        actions = script.actions[task.digest]
        half = len(actions) // 2
        host = await pool.take()
        await host.reset(task)
        turns = [await _answer(host, action) for action in actions[:half]]
        began = time.perf_counter()
        fork = await host.fork()
        seconds.append(time.perf_counter() - began)
        turns += await _rest(fork, actions[half:])
        await fork.close()
        turns += await _rest(host, (NOT_AN_ACTION, *actions[half:]))
        await pool.discard(host)
        rows.append({"task": json.loads(json.dumps(task.to_json())), "turns": turns})
    return rows, seconds


async def _rest(host: Host, actions: Sequence[tw.Action]) -> list[dict[str, Any]]:
    turns = list[dict[str, Any]]()
    for action in actions:
        turns.append(await _answer(host, action))
        if turns[-1]["terminated"] or turns[-1]["truncated"]:
            break
    return turns


async def _answer(host: Host, action: tw.Action) -> dict[str, Any]:
    observation, reward, terminated, truncated, info = await host.step(action)
    kept = {key: repr(value) if key == "score" else json.dumps(value, default=plain) for key, value in info.items()}
    answer = {"observation": repr(observation), "reward": reward, "terminated": terminated}
    return {**answer, "truncated": truncated, "info": kept}


@contextlib.contextmanager
def served(ids: Sequence[str], isolation: str) -> Iterator[dict[str, str]]:
    """Run ``turnwise serve`` in another process; yields the id of each environment there."""
    command = [sys.executable, "-m", "turnwise", "serve", *ids, "--port", "0", "--token", "benchmark-client-token"]
    command += ["--operator-key", KEY, "--capacity", "4", f"isolation={isolation}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield dict(zip(ids, [process.stdout.readline().strip() for _ in ids], strict=True))
    finally:
        process.kill()
        process.wait()


async def distances(id: str, remote: dict[str, str]) -> AsyncIterator[tuple[str, EnvPool]]:
    """Yield the name and the pool of each distance, the nearest first."""
    yield LOCAL, EnvPool.of(id)
    yield CHILD, EnvPool.of(id, isolation="process")
    cluster = RolloutsConfig(engine="ray", workers=1, episodes_per_worker=1)
    yield RAY, pool_of(cluster, id)
    for isolation, place in SOCKET.items():
        yield place, await asyncio.to_thread(EnvPool.of, remote[isolation])


def compare(id: str, episodes: int, remote: dict[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Play one environment at every distance; return the lines of the table, and the differences."""
    env = tw.make(id)
    tasks = sample_tasks(env.tasks(), episodes).tasks  # type: ignore[attr-defined]
    env.close()

    async def all_distances() -> tuple[list[dict[str, Any]], list[str]]:
        script, lines, wrong = await written(id, tasks), list[dict[str, Any]](), list[str]()
        near: Played | None = None
        async for place, pool in distances(id, remote):
            far = await played(pool, tasks, script, named=place not in SOCKET.values(), forks=place != RAY)
            near = near or far
            expected = near.rows if place not in SOCKET.values() else [_unnamed(row) for row in near.rows]
            wrong += differences(id, place, expected, far.rows)
            wrong += differences(id, f"{place}, with a fork", near.forked, far.forked) if place != RAY else ()
            lines.append(_line(id, place, len(tasks), far))
            print(_printed(lines[-1]), flush=True)
        return lines, wrong

    return asyncio.run(all_distances())


def _unnamed(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("episode_id", "group_id", "env_id")}


def _line(id: str, place: str, episodes: int, run: Played) -> dict[str, Any]:
    ordered = sorted(run.steps)
    return {
        "id": id,
        "distance": place,
        "episodes": episodes,
        "steps": len(ordered),
        "median": statistics.median(ordered) * 1e3,
        "p99": ordered[int(0.99 * (len(ordered) - 1))] * 1e3,
        "wall": run.wall / len(ordered) * 1e3,
        "fork": statistics.median(run.fork) * 1e3 if run.fork else None,
    }


def _printed(line: dict[str, Any]) -> str:
    times = (f"{line[name]:.2f}" if line[name] is not None else "" for name in ("median", "p99", "wall", "fork"))
    return "| " + " | ".join((line["id"], line["distance"], str(line["steps"]), *times)) + " |"


def main() -> None:
    """Print the table, and fail on any difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", nargs="+", default=IDS, help="environments (default: five families)")
    parser.add_argument("--episodes", type=int, default=40, help="episodes of each environment")
    parser.add_argument("--out", type=Path, help="file for results; environments that it has are not played again")
    chosen = parser.parse_args()
    os.environ["TURNWISE_TOKEN"] = KEY
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers end, too
    before = chosen.out.read_text() if chosen.out and chosen.out.exists() else ""
    known = [json.loads(line) for line in before.splitlines()]
    done = {line["id"] for line in known if line["episodes"] == chosen.episodes}
    print("| environment | distance | steps | ms in the environment | p99 | ms of the run | ms of a fork |")
    print("|---|---|---|---|---|---|---|")
    print("".join(f"{_printed(line)}\n" for line in known if line["id"] in {*chosen.ids} & done), end="")
    wrong = list[str]()
    with contextlib.ExitStack() as stack:
        if left := [id for id in chosen.ids if id not in done]:
            servers = {each: stack.enter_context(served(left, each)) for each in SOCKET}
        for id in left:
            lines, found = compare(id, chosen.episodes, {each: servers[each][id] for each in SOCKET})
            print("".join(f"{line}\n" for line in found), end="", flush=True)
            wrong += found
            if chosen.out and not found:
                with chosen.out.open("a") as file:
                    file.writelines(f"{json.dumps(line)}\n" for line in lines)
    if wrong:
        sys.exit(f"{len(wrong)} episodes differ between distances")
    print(f"\n{len(chosen.ids) * chosen.episodes} episodes: equal at every distance, byte for byte apart from times.")


if __name__ == "__main__":
    main()
