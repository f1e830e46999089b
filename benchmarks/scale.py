"""Measure rollouts on Ray against the local engine: episodes per second, the driver's cost, bytes, and a bias check.

    python benchmarks/scale.py --turns 20 --latency 0.05 --episodes 128 --workers 1,2

Every number is of this machine, whose load average is printed. A policy of fixed latency plays a fixed number of turns
of an environment that only counts, so what differs between two lines is the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.envs.messages import Message, Observation, TextPart
from turnwise.rollouts.engine import pool_of
from turnwise.rollouts.episode import Episode, Outcome, Turn
from turnwise.rollouts.options import RolloutsConfig, RunOptions
from turnwise.rollouts.packed import pack, unpack
from turnwise.rollouts.runner import run_episodes
from turnwise.tasks.family import SeededFamily


class Counting(tw.TurnEnv):
    """Over after ``turns`` actions; solved if the task's own coin says so."""

    blocking = False

    def __init__(self, turns: int = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.turns = turns

    @classmethod
    def tasks(cls) -> Any:
        """One family for every subclass."""
        return SeededFamily("Counting")

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        """Start counting."""
        return "turn 0"

    def act(self, action: tw.Action) -> Any:
        """Count, and end."""
        return tw.success("done", 1.0) if self.turn >= self.turns else tw.running(f"turn {self.turn}")


class Latent:
    """An agent that waits, burns processor time, and says ``tokens`` ids a turn."""

    def __init__(self, latency: float, burn: float, tokens: int) -> None:
        self.latency, self.burn, self.tokens = latency, burn, tokens

    def start(self, context: EpisodeContext) -> Any:
        """Return a session."""
        return _LatentSession(self)


class _LatentSession:
    def __init__(self, agent: Latent) -> None:
        self.agent, self.context = agent, ()

    async def act(self, observation: Observation) -> Decision:
        agent = self.agent
        end = time.process_time() + agent.burn
        while time.process_time() < end:
            pass
        await asyncio.sleep(agent.latency)
        half = agent.tokens // 2
        prompt = (*self.context, *range(half))
        said = tuple(range(half))
        self.context = (*prompt, *said)
        return Decision(tw.Action("go"), prompt, said, (-0.5,) * half, (1,) * half)


async def timed(pool: Any, agent: Any, episodes: int, concurrency: int) -> tuple[float, float]:
    """Return seconds and the driver's processor seconds for a run, after one of a few episodes."""
    options = RunOptions(concurrency=concurrency)

    async def play(count: int) -> None:
        tasks = [tw.TaskSpec("Counting", seed=seed) for seed in range(count)]
        async with aclosing(run_episodes(pool, agent, tasks, options=options)) as run:
            async for _ in run:
                pass

    await play(2 * concurrency)
    wall, cpu = time.perf_counter(), time.process_time()
    await play(episodes)
    return time.perf_counter() - wall, time.process_time() - cpu


async def speed(args: argparse.Namespace) -> None:
    """Print episodes per second and the driver's cost with each engine."""
    agent, kwargs = Latent(args.latency, args.burn, args.tokens), {"turns": args.turns}
    for workers in (0, *map(int, args.workers.split(","))):
        seats = args.seats * max(workers, 1)
        config = RolloutsConfig(engine="ray", workers=workers, episodes_per_worker=args.seats) if workers else None
        pool = pool_of(config or RolloutsConfig(), Counting, env_kwargs=kwargs)
        wall, cpu = await timed(pool, agent, args.episodes, seats)
        await pool.close()
        name = f"ray, {workers} workers" if workers else "local"
        print(
            f"{name:16} {seats:4} at a time  {args.episodes / wall:7.1f} episodes/s  driver "
            f"{1e3 * cpu / args.episodes:6.2f} ms/episode  load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def bytes_per_episode() -> None:
    """Print bytes and processor time of packed episodes by their length."""
    said = Observation((Message("user", (TextPart("x" * 200),)),))
    for turns, tokens in ((10, 1000), (20, 2000), (40, 4000), (50, 32_000)):
        half, context, played = tokens // turns // 2, (), []
        for _ in range(turns):
            prompt, action = (*context, *range(half)), tuple(range(half))
            logprobs = tuple(random.random() for _ in action)
            played.append(Turn(said, tw.Action("y" * 200), 0.0, prompt_ids=prompt, action_ids=action,
                               logprobs=logprobs, versions=(1,) * half))  # fmt: skip
            context = (*prompt, *action)
        spec = tw.TaskSpec("Counting", seed=1)
        episode = Episode("e-0", "Counting", spec, "e", tuple(played), Outcome.COMPLETED)
        data = pack([episode])
        packing, unpacking = _milliseconds(pack, [episode]), _milliseconds(unpack, data)
        print(
            f"{turns:3} turns, {tokens:6} tokens: {len(data):7} bytes, {len(data) / tokens:5.1f} a token; worker "
            f"{packing:5.2f} ms, driver {unpacking:5.2f} ms"
        )


def _milliseconds(call: Callable[[Any], Any], argument: Any) -> float:
    start = time.process_time()
    for _ in range(10):
        call(argument)
    return 1e2 * (time.process_time() - start)


class Slower(Counting):
    """Half of the tasks are slow, and only these succeed."""

    def act(self, action: tw.Action) -> Any:
        """Succeed late, or fail early."""
        if self.task.seed % 2 == 0:
            return tw.failure("no")
        return tw.success("done", 1.0) if self.turn >= 8 else tw.running(f"turn {self.turn}")


async def bias(args: argparse.Namespace) -> None:
    """Print the success of all episodes on Ray, and of a copy that stops after the first half of them."""
    config = RolloutsConfig(engine="ray", workers=2, episodes_per_worker=args.seats)
    pool = pool_of(config, Slower)
    tasks = [tw.TaskSpec("Counting", seed=seed) for seed in range(200)]
    everything: list[Episode] = []
    async with aclosing(run_episodes(pool, Latent(0.02, 0.0, 4), tasks, options=RunOptions())) as run:
        async for episode in run:
            everything.append(episode)
    await pool.close()
    everything_solved = sum(episode.success for episode in everything) / len(everything)
    first = everything[: len(everything) // 2]
    print(f"success of all {len(everything)} drawn episodes {everything_solved:.3f} (true: 0.500); of the first "
          f"{len(first)} to finish {sum(episode.success for episode in first) / len(first):.3f}")  # fmt: skip


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=100, help="tokens of a turn, half of them sampled")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds of a turn")
    parser.add_argument("--burn", type=float, default=0.0, help="processor seconds of a turn")
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--seats", type=int, default=16, help="episodes of a worker at a time")
    parser.add_argument("--workers", default="1,2")
    args = parser.parse_args()
    bytes_per_episode()
    asyncio.run(speed(args))
    asyncio.run(bias(args))


if __name__ == "__main__":
    main()
