"""Measure one step, one reset and one fork of environments, in microseconds.

    python benchmarks/env_step.py [ID ...]

Without ids: an empty text environment, an empty tool environment, both through a wrapper and through the async form,
and ``turnwise/Maze-v0``. Best of five repetitions, on one core.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import turnwise as tw
from turnwise.envs.wrappers.base import TurnWrapper


class Empty(tw.TurnEnv):
    """Nothing happens."""

    max_turns = 10**9

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Begin."

    def act(self, action: tw.Action) -> str:
        return "On."


class EmptyTools(tw.ToolEnv):
    """One tool, which does nothing."""

    max_turns = 10**9

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Begin."

    @tw.tool
    def nothing(self, times: int) -> str:
        """Do nothing."""
        return "Done."


def best(run: Callable[[int], Any], n: int) -> float:
    """Microseconds per repetition."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        run(n)
        times.append(time.perf_counter() - began)
    return 1e6 * min(times) / n


def row(name: str, make: Callable[[], Any], action: Any = None, n: int = 300) -> None:
    """Print one environment's costs."""
    env = make()

    def resets(n: int) -> None:
        for seed in range(n):
            env.reset(seed=seed)

    def steps(n: int) -> None:
        env.reset(seed=0)
        for _ in range(n):
            answer = env.step(env.oracle() if action is None else action)
            if answer[2] or answer[3]:
                env.reset(seed=0)

    async def asteps(n: int) -> None:
        await env.areset(seed=0)
        for _ in range(n):
            answer = await env.astep(env.oracle() if action is None else action)
            if answer[2] or answer[3]:
                await env.areset(seed=0)

    def forks(n: int) -> None:
        env.reset(seed=0)
        for _ in range(n):
            env.fork()

    costs = [best(run, n) for run in (resets, steps, lambda n: asyncio.run(asteps(n)), forks)]
    print(f"{name:28}" + "".join(f"{cost:10.1f}" for cost in costs))


def main() -> None:
    """Print the table."""
    print(f"{'microseconds per':28}{'reset':>10}{'step':>10}{'astep':>10}{'fork':>10}")
    call = tw.ToolCall("nothing", {"times": 1})
    if len(sys.argv) == 1:
        row("empty text environment", Empty, "x")
        row("empty tool environment", EmptyTools, call)
        row("text environment, wrapped", lambda: TurnWrapper(Empty()), "x")
    for id in sys.argv[1:] or ["turnwise/Maze-v0"]:
        row(id, lambda id=id: tw.make(id))  # type: ignore[misc]


if __name__ == "__main__":
    main()
