"""How fast are web sites in a browser? Resets, steps and memory of Chromium, of the browser without a window, and of
Playwright alone doing the same clicks on the same pages.

All in one run on one machine: oracle episodes of level 2, played in ``turnwise/WebHTML-v1`` and ``turnwise/Web-v1``;
then the same addresses and clicks by bare Playwright (a new context and page for every episode, ``goto``, ``click`` by
role and name, and an aria snapshot; no lock, no waiting for frames, no numbering) against the same server; then several
episodes at once, with the memory of Chromium's processes (PSS, so what they share counts once).

    python benchmarks/web.py [--n 20] [--at-once 1 4 16] [--browsergym PYTHON [--seeds 3]] [--json FILE]

With ``--browsergym``, episodes of MiniWoB++ are played, too: in our environment, in BrowserGym and by Playwright alone,
in turns (``web_miniwob.py``). BrowserGym wants a virtual environment of its own (``web_browsergym.py`` says more):

    python -m venv .venv-browsergym && .venv-browsergym/bin/pip install browsergym-core browsergym-miniwob
    python benchmarks/web.py --browsergym .venv-browsergym/bin/python
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

import web_miniwob
from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.envs.web.chromium.browser import ChromiumBrowser
from turnwise.envs.web.chromium.loop import LOOP
from turnwise.envs.web.chromium.pool import pool
from turnwise.envs.web.chromium.processes import memory
from turnwise.envs.web.env import WebEnv

LEVEL = 2
NEW = "HTML, a new task"
"""Drawing a task and its sites happens once for a seed; what is played of it after that finds it drawn."""
FIRST = 10_000
"""The first seed."""


def opened(id: str) -> WebEnv:
    """An environment without wrappers."""
    env = tw.make(id).unwrapped
    assert isinstance(env, WebEnv)
    return env


async def played(env: WebEnv, seed: int, found: dict[str, list[float]], name: str) -> int:
    """Play an episode by its oracle, note milliseconds of its reset and steps, and say how many steps there were."""
    began = time.perf_counter()
    await env.areset(seed=seed, options={"level": LEVEL})
    found.setdefault(f"{name}: reset", []).append(1000 * (time.perf_counter() - began))
    steps, over = 0, False
    while not over:
        action = env.oracle()
        began = time.perf_counter()
        _, _, terminated, truncated, _ = await env.astep(action)
        over = terminated or truncated
        if not over:
            found.setdefault(f"{name}: step", []).append(1000 * (time.perf_counter() - began))
            steps += 1
    return steps


async def bare(seed: int, found: dict[str, list[float]]) -> None:
    """The same episode by Playwright alone, in the same browser: on Chromium's loop."""
    env = opened("turnwise/WebHTML-v1")
    await env.areset(seed=seed, options={"level": LEVEL})
    acts, sites, own = env.plan(), env.sites, pool()
    began = time.perf_counter()
    chromium = own.browsers[-1]
    key, episode = own.server.enter()
    episode.sites = sites
    context = await chromium.browser.new_context(extra_http_headers={"x-turnwise-episode": key})
    page = await context.new_page()
    jar: Any = [{"name": "session", "value": token, "url": f"http://{host}/"} for host, token in sites.cookies.items()]
    await context.add_cookies(jar)
    await page.goto(env.page.url)
    await page.aria_snapshot(mode="ai")
    found.setdefault("Playwright alone: reset", []).append(1000 * (time.perf_counter() - began))
    for act in acts[:-1]:
        began = time.perf_counter()
        if act.name == "goto":
            await page.goto(act.arguments["url"])
        elif act.name == "go_back":
            await page.go_back()
        elif act.element is not None:
            role: Any = act.element.role
            at = page.get_by_role(role, name=act.element.name, exact=True).nth(act.element.nth)
            if act.name == "fill":
                await at.fill(act.arguments["value"])
            elif act.name == "select_option":
                await at.select_option(act.arguments["options"])
            else:
                await at.click()
        await page.aria_snapshot(mode="ai")
        found.setdefault("Playwright alone: step", []).append(1000 * (time.perf_counter() - began))
    await context.close()
    own.server.leave(key)


async def at_once(number: int, each: int) -> dict[str, float]:
    """Play ``each`` episodes in each of ``number`` environments at once; steps in a second, and MiB."""
    envs = [opened("turnwise/Web-v1") for _ in range(number)]
    found: dict[str, list[float]] = {}

    async def one(place: int) -> int:
        seeds = (FIRST + 1000 + place * each + turn for turn in range(each))
        return sum([await played(envs[place], seed, found, "") for seed in seeds])

    began = time.perf_counter()
    steps = sum(await asyncio.gather(*map(one, range(number))))
    took = time.perf_counter() - began
    browser = envs[0].browser
    assert isinstance(browser, ChromiumBrowser)
    size = memory(browser.slot.chromium.pid, "shared") / 2**20
    for env in envs:
        await env.leave()
    return {
        "steps_per_second": steps / took,
        "median_step_ms": statistics.median(found[": step"]),
        "median_reset_ms": statistics.median(found[": reset"]),
        "pss_mib": size,
    }


async def measured(n: int, numbers: list[int], each: int, browsergym: str | None, seeds: int) -> dict[str, Any]:
    """All figures; the first episode of everything is not counted."""
    found: dict[str, list[float]] = {}
    envs = {"HTML": opened("turnwise/WebHTML-v1"), "Chromium": opened("turnwise/Web-v1")}
    for warming in (True, False):
        for seed in range(FIRST, FIRST + (1 if warming else n)):
            began = time.perf_counter()
            await envs["HTML"].areset(seed=seed, options={"level": LEVEL})
            found.setdefault(f"{NEW}: reset", []).append(1000 * (time.perf_counter() - began))
            for name, env in envs.items():
                await played(env, seed, found, name)
            await LOOP.run(bare(seed, found))
        if warming:
            found.clear()
    await envs["Chromium"].leave()
    counts = await web_miniwob.measured(browsergym, seeds, found) if browsergym else None
    figures: dict[str, Any] = {
        name: {
            "median_ms": statistics.median(values),
            "p90_ms": statistics.quantiles(values, n=10)[-1],
            "n": len(values),
        }
        for name, values in found.items()
    }
    if counts is not None:
        figures["counts"] = counts
    figures["at once"] = {number: await at_once(number, each) for number in numbers}
    return figures


def shown(figures: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    table = Table("what", "median ms", "90 % ms", "n")
    for name, one in figures.items():
        if name not in ("at once", "counts"):
            table.add_row(name, f"{one['median_ms']:.1f}", f"{one['p90_ms']:.1f}", str(one["n"]))
    console.print(table)
    if "counts" in figures:
        alike = Table("MiniWoB", "episodes", "same request", "solved")
        for name, counts in figures["counts"].items():
            alike.add_row(name, *map(str, counts))
        console.print(alike)
    else:
        console.print("BrowserGym was not measured: --browsergym names the Python of an environment that has it")
    together = Table("at once", "steps/s", "median step ms", "median reset ms", "PSS MiB")
    for number, one in figures["at once"].items():
        together.add_row(str(number), *(f"{value:.1f}" for value in one.values()))
    console.print(together)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--n", type=int, default=20, help="episodes, one after the other")
    words.add_argument("--at-once", type=int, nargs="*", default=[1, 4, 16], help="environments at once")
    words.add_argument("--each", type=int, default=3, help="episodes of each of those")
    words.add_argument("--browsergym", metavar="PYTHON", help="of an environment in which BrowserGym is installed")
    words.add_argument("--seeds", type=int, default=3, help="episodes of each of the MiniWoB++ pages, with BrowserGym")
    words.add_argument("--json", type=Path, help="file to write the figures to")
    said = words.parse_args()
    figures = asyncio.run(measured(said.n, said.at_once, said.each, said.browsergym, said.seeds))
    shown(figures, Console())
    if said.json:
        said.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
