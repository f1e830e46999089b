"""Measure the calls of a program: an empty run of a session, a request of its code to the host, and a tool called as a
function, each in turn on every backend.

Latencies are medians in milliseconds. Requests and tools are timed inside, one after the other; runs outside. *Start*
is the first program of an episode: a waiting sandbox, a session, and the module with its tools.

Run: python benchmarks/program.py [BACKEND …] [--n 200] [--tools 80]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import replace

from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.envs.code.backends import spec_for
from turnwise.envs.code.episode_sandbox import EpisodeSandbox
from turnwise.envs.program.tools import PythonTools

INSIDE = """
import time
def measured(work):
    found = []
    for _ in range({n}):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return sorted(found)[len(found) // 2] * 1000
import turnwise_host
"""
REQUEST = "print(measured(lambda: turnwise_host.ask(b'{}')))"
TOOL = "print(measured(lambda: apis.tool_0('a', 3)))"


class Tools(tw.ToolEnv):
    """One tool."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return ""

    @tw.tool
    def tool(self, text: str, number: int = 1, tags: list[str] | None = None) -> dict[str, str]:
        """Give back what was given.

        Args:
            text: anything.
            number: any.
            tags: more.
        """
        return {"text": text}


async def measured(backend: str, n: int, count: int) -> dict[str, float]:
    """Medians of one backend, in milliseconds."""
    env = Tools()
    env.reset(seed=0)
    tools = [replace(env.tools[0], name=f"tool_{number}") for number in range(count)]
    starts, runs, found = list[float](), list[float](), dict[str, list[float]]()
    for _ in range(max(3, n // 20)):
        sandbox = EpisodeSandbox(backend, spec_for(backend))
        programs = PythonTools(tools, sandbox, calls=10 * n)
        began = time.perf_counter()
        await programs.run("pass")
        starts.append(time.perf_counter() - began)
        for _ in range(20):
            began = time.perf_counter()
            await programs.run("pass")
            runs.append(time.perf_counter() - began)
        await programs.run(INSIDE.format(n=n))
        for name, source in (("request", REQUEST), ("tool", TOOL)):
            found.setdefault(name, []).append(float((await programs.run(source, 60.0)).result.stdout.text))
        await sandbox.close()
        await asyncio.sleep(0.2)  # others are made ready meanwhile
    times = {"start": statistics.median(starts) * 1000, "empty run": statistics.median(runs) * 1000}
    return {**times, **{name: statistics.median(values) for name, values in found.items()}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what a program's calls cost")
    parser.add_argument("backends", nargs="*", default=["bubblewrap"])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--tools", type=int, default=80)
    chosen = parser.parse_args()
    table = Table("backend", "start", "empty run", "request", "tool", "tools a second")
    for backend in chosen.backends:
        found = asyncio.run(measured(backend, chosen.n, chosen.tools))
        table.add_row(backend, *(f"{value:.2f}" for value in found.values()), f"{1000 / found['tool']:.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
