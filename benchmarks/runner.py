"""Measure how near the runner is to the ideal rate, the cost of a turn, and the time spent waiting.

The environment is empty and the policy sleeps, so the difference from the ideal is the runner's. With all episodes
alive at once, the ideal is the longest episode's own latencies added up. "Own cost" is processor time per turn,
including the benchmark's sleeping; "instant" is wall time per turn with a policy that answers immediately.

Run: python benchmarks/runner.py [--quick] [--check]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.agents.agent import Agent, Decision, EpisodeContext, Session
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.runner import run_episodes

LATENCY = 0.5
TAIL = 1.0
"""Sigma of the log-normal latencies; with it, one turn in a hundred takes more than ten times the median."""
SLOW_STEP = 3.0
ACTION = tw.Action("go on")
WORDS = "You stand in a long corridor with doors to the left and to the right ."


class Scale(NamedTuple):
    """How large the benchmark is."""

    episodes: int
    turns: int
    latency: float


class Empty(tw.TurnEnv):
    """Answers immediately, and ends after ``length`` turns."""

    blocking = False

    def __init__(self, length: int = 20, slow: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.length, self.slow = length, slow

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return WORDS

    async def act(self, action: tw.Action) -> tw.Step:
        if self.slow and self.task.seed == 0:
            await asyncio.sleep(self.slow)
        return tw.success(WORDS) if self.turn == self.length else tw.running(WORDS)


class Blocking(Empty):
    """The same, blocking: every environment gets a thread."""

    blocking = True

    def act(self, action: tw.Action) -> tw.Step:  # type: ignore[override]
        if self.slow and self.task.seed == 0:
            time.sleep(self.slow)
        return tw.success(WORDS) if self.turn == self.length else tw.running(WORDS)


class Latency:
    """Duration of each answer, and the shortest possible duration of the slowest episode."""

    def __init__(self, mean: float, tail: float = 0.0) -> None:
        self.mean, self.tail, self.longest = mean, tail, 0.0

    def draw(self, rng: tw.Rng) -> float:
        """Seconds for one answer, ``mean`` on average."""
        if not self.tail:
            return self.mean
        return self.mean * math.exp(rng.gauss(0.0, self.tail) - self.tail**2 / 2)


@dataclass(slots=True)
class Sleeper:
    """An agent without a model: it sleeps, then gives the same answer."""

    latency: Latency

    def start(self, context: EpisodeContext) -> Session:
        """A session with latencies of its own."""
        return _SleeperSession(self.latency, context.rng)


@dataclass(slots=True)
class _SleeperSession:
    latency: Latency
    rng: tw.Rng
    total: float = 0.0

    async def act(self, observation: tw.Observation) -> Decision:
        seconds = self.latency.draw(self.rng)
        self.total += seconds
        self.latency.longest = max(self.latency.longest, self.total)
        await asyncio.sleep(seconds)
        return Decision(ACTION, seconds=seconds)


class SleepingPolicy:
    """A policy that samples the same two words after a while."""

    def __init__(self, latency: Latency, ids: tuple[int, ...]) -> None:
        self.latency, self.ids = latency, ids

    async def generate(self, prompt_ids: Any, sampling: tw.Sampling, *, session: str = "") -> tw.Completion:
        """Sleep, then answer."""
        await asyncio.sleep(self.latency.mean)
        ids = (*self.ids, sampling.stop_ids[0])
        return tw.Completion(ids, (-0.5,) * len(ids), (0,) * len(ids), tw.Finish.STOP)


def chat_agent(latency: Latency) -> Agent:
    """A real agent with a word-level tokenizer over the sleeping policy."""
    # Imported here, so that the other measurements run without a deep-learning library in the process.
    from turnwise.agents.chat import ChatAgent
    from turnwise.inference.nano import build_tokenizer

    tokenizer = build_tokenizer("word", [WORDS, ACTION.text])
    ids = tuple(tokenizer.encode(ACTION.text, add_special_tokens=False))
    return ChatAgent(SleepingPolicy(latency, ids), tokenizer)


class Measured(NamedTuple):
    """One run: when the ``waited_for`` quickest episodes finished, and the processor time."""

    seconds: float
    processor: float
    turns: int


async def play(env: Callable[..., tw.TurnEnv], agent: Agent, scale: Scale, waited_for: int | None = None) -> Measured:
    """Play all episodes at once; stop when ``waited_for`` of them have finished."""
    tasks = [tw.TaskSpec(env.__name__, seed=seed) for seed in range(scale.episodes)]
    options = RunOptions(
        concurrency=scale.episodes, env_kwargs={"length": scale.turns, "slow": SLOW_STEP if waited_for else 0.0}
    )
    gc.collect()
    began, processor, turns, n = time.perf_counter(), time.process_time(), 0, 0
    async with aclosing(run_episodes(env, agent, tasks, options=options)) as episodes:
        async for episode in episodes:
            assert episode.success, episode.error
            turns += len(episode.turns)
            n += 1
            if n == waited_for:
                break
        return Measured(time.perf_counter() - began, time.process_time() - processor, turns)


class Meeting:
    """An agent around another that waits, in the last turn, until all episodes are there; then looks at the memory."""

    def __init__(self, inner: Agent, scale: Scale, look: Callable[[], int]) -> None:
        self.inner, self.scale, self.look, self.seen = inner, scale, look, 0
        self.meeting = asyncio.Barrier(scale.episodes)

    def start(self, context: EpisodeContext) -> Session:
        """A session that meets the others."""
        return _MeetingSession(self, self.inner.start(context))


@dataclass(slots=True)
class _MeetingSession:
    outer: Meeting
    inner: Session
    turn: int = 0

    async def act(self, observation: tw.Observation) -> Decision:
        decision = await self.inner.act(observation)
        self.turn += 1
        if self.turn == self.outer.scale.turns and await self.outer.meeting.wait() == 0:
            self.outer.seen = self.outer.look()
        return decision


async def memory(env: Callable[..., tw.TurnEnv], agent: Agent, scale: Scale) -> float:
    """Kilobytes per live episode in its last turn, everything included that Python allocated."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    meeting = Meeting(agent, scale, lambda: tracemalloc.get_traced_memory()[0])
    await play(env, meeting, scale)
    tracemalloc.stop()
    return (meeting.seen - before) / scale.episodes / 1024


Row = tuple[str, float, float, float]


def rates(scale: Scale) -> Iterable[Row]:
    """Name, ideal seconds, measured seconds, microseconds of processor per turn."""

    def row(name: str, ideal: float, measured: Measured) -> Row:
        return name, ideal, measured.seconds, measured.processor / measured.turns * 1e6

    ideal, others = scale.turns * scale.latency, scale.episodes - 1
    yield row(f"policy of {scale.latency:g} s", ideal, asyncio.run(play(Empty, Sleeper(Latency(scale.latency)), scale)))
    tailed = Latency(scale.latency, TAIL)
    measured = asyncio.run(play(Empty, Sleeper(tailed), scale))
    yield row(f"heavy-tailed around {scale.latency:g} s", tailed.longest, measured)
    measured = asyncio.run(play(Empty, Sleeper(Latency(scale.latency)), scale, others))
    yield row(f"one steps {SLOW_STEP:g} s: the other {others}", ideal, measured)
    yield row("environments on threads", ideal, asyncio.run(play(Blocking, Sleeper(Latency(scale.latency)), scale)))
    measured = asyncio.run(play(Blocking, Sleeper(Latency(scale.latency)), scale, others))
    yield row(f"one blocks {SLOW_STEP:g} s: the other {others}", ideal, measured)
    measured = asyncio.run(play(Empty, chat_agent(Latency(scale.latency)), scale))
    yield row("ChatAgent, word-level tokenizer", ideal, measured)


def costs(scale: Scale) -> Iterable[tuple[str, float, float]]:
    """Name, wall microseconds per turn with an instant policy, kilobytes per live episode."""
    for name, make in (("scripted agent", Sleeper), ("ChatAgent, word-level tokenizer", chat_agent)):
        agent = make(Latency(0.0))
        measured = asyncio.run(play(Empty, agent, scale))
        yield name, measured.seconds / measured.turns * 1e6, asyncio.run(memory(Empty, agent, scale))


def main() -> None:
    """Print two tables; with ``--check``, fail where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 episodes of 10 turns of 0.2 s")
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if a ratio is below 0.9 or a turn above 200 µs"
    )
    arguments = parser.parse_args()
    scale = Scale(200, 10, 0.2) if arguments.quick else Scale(1000, 20, LATENCY)
    instant = Table("instant policy", "wall µs per turn", "KiB per live episode")
    missed = False
    table = Table("", "ideal s", "measured s", "ideal / measured", "own cost, µs per turn")
    for name, ideal, seconds, cost in rates(scale):
        missed |= ideal / seconds < 0.9
        table.add_row(name, f"{ideal:.2f}", f"{seconds:.2f}", f"{ideal / seconds:.3f}", f"{cost:.0f}")
    for name, cost, kilobytes in costs(scale):
        missed |= name == "scripted agent" and cost > 200
        instant.add_row(name, f"{cost:.0f}", f"{kilobytes:.1f}")
    console = Console(width=120)
    console.print(f"{scale.episodes} episodes of {scale.turns} turns, all alive at once")
    console.print(table, instant)
    sys.exit(arguments.check and missed)


if __name__ == "__main__":
    main()
