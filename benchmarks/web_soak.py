"""Many web tasks by their solutions and by saying nothing, in one browser, and what becomes of its memory.

    python benchmarks/web_soak.py --html 5000 --chromium 1000 [--at-once 3]

Without a browser, every task is solved by its solution, and another episode of it says at once that it is done. In
Chromium, which is not replaced by another however old or large it grows, episodes do the one or the other in turn. The
memory is that of all processes of Chromium (PSS, so what they share counts once), after every tenth of the episodes,
while none is being played.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import replace

from web import opened

from turnwise.envs.messages import ToolCall
from turnwise.envs.web.chromium.pool import pool
from turnwise.envs.web.chromium.processes import memory
from turnwise.envs.web.env import WebEnv
from turnwise.tasks.spec import TaskSpec
from turnwise.tasks.web.family import WEB_FAMILY

FIRST = 50_000
"""The first seed; all splits and levels in turn."""
DONE = ToolCall("send_msg_to_user", {"text": "Done."})


def sampled(n: int) -> list[TaskSpec]:
    """Tasks of all splits and levels, in turn."""
    splits = WEB_FAMILY.splits
    each = [WEB_FAMILY.sample(-(-n // len(splits)), split=split, first_seed=FIRST) for split in splits]
    return [spec for row in zip(*each, strict=True) for spec in row][:n]


async def succeeds(env: WebEnv, spec: TaskSpec, *, by_solution: bool) -> bool:
    """Play an episode."""
    await env.areset(options={"task": spec})
    while True:
        _, _, terminated, truncated, info = await env.astep(env.oracle() if by_solution else DONE)
        if terminated or truncated:
            return bool(info["success"])


async def without(n: int) -> None:
    """Play without a browser."""
    env, solved, idle, began = opened("turnwise/WebHTML-v1"), 0, 0, time.perf_counter()
    for number, spec in enumerate(sampled(n), 1):
        done = await succeeds(env, spec, by_solution=True)
        solved += done
        idle += await succeeds(env, spec, by_solution=False)
        if not done:
            print(f"NOT SOLVED: {spec.to_json()}")
        if number % 500 == 0 or number == n:
            took = time.perf_counter() - began
            print(f"HTML: {solved}/{number} solved, {idle} by saying nothing, {took:.0f} s", flush=True)


async def within(n: int, at_once: int) -> None:
    """Play in one Chromium."""
    specs, began = sampled(n), time.perf_counter()
    envs = [opened("turnwise/Web-v1") for _ in range(at_once)]
    one = pool()
    one.settings = replace(one.settings, contexts=sys.maxsize, memory=sys.maxsize)
    solved = [0, 0]
    left = list(enumerate(specs))

    async def play(env: WebEnv, until: int) -> None:
        while left and left[0][0] < until:
            number, spec = left.pop(0)
            by_solution = number % (2 * len(WEB_FAMILY.splits)) < len(WEB_FAMILY.splits)
            done = await succeeds(env, spec, by_solution=by_solution)
            solved[by_solution] += done
            if done != by_solution:
                print(f"{'NOT SOLVED' if by_solution else 'SOLVED BY NOTHING'}: {spec.to_json()}")
        await env.leave()

    tenth = -(-n // 10)
    for until in range(tenth, n + tenth, tenth):
        await asyncio.gather(*(play(env, until) for env in envs))
        [chromium] = one.browsers
        size, took = memory(chromium.pid, "shared") / 2**20, time.perf_counter() - began
        print(
            f"Chromium: {min(until, n)} episodes, {solved[1]} solved, {solved[0]} by saying nothing, "
            f"{size:.0f} MiB, {took:.0f} s, browsers started: {one.launched}",
            flush=True,
        )


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--html", type=int, default=5000, help="tasks without a browser")
    words.add_argument("--chromium", type=int, default=1000, help="episodes in Chromium")
    words.add_argument("--at-once", type=int, default=3, help="of those, at a time")
    said = words.parse_args()
    if said.html:
        asyncio.run(without(said.html))
    if said.chromium:
        asyncio.run(within(said.chromium, said.at_once))


if __name__ == "__main__":
    main()
