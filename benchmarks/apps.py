"""How fast is the apps world? Reset, calls, judging, forks, and what a thousand live worlds weigh.

One core, the default environment in this process; medians over sampled tasks of the split ``train``. Worlds are made
once per process: the first table row says what that costs, the others are with the worlds of a split at hand, as in
any run of more than some hundred episodes.

    python benchmarks/apps.py [--n 500] [--live 1000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.envs.apps.env import AppsEnv
from turnwise.tasks.apps.simulators.catalogue import base_world
from turnwise.tasks.rows.base_world import WORLDS
from turnwise.tasks.spec import Split

LEVELS = 5
TARGETS = {"reset": 2.0, "tool call": 0.3, "judge": 5.0, "fork": 2.0}
"""Milliseconds hoped for."""


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds that a function took, and its result."""
    began = time.perf_counter()
    result = function()
    return 1000 * (time.perf_counter() - began), result


def made() -> list[float]:
    """Milliseconds for every world of the split."""
    return [timed(lambda number=number: base_world(Split.TRAIN, number))[0] for number in range(WORLDS)]  # type: ignore[misc]


def episodes(n: int) -> dict[str, list[float]]:
    """Milliseconds of resets, calls (a whole step of the environment) and judging over ``n`` oracle episodes."""
    found: dict[str, list[float]] = {name: [] for name in ("reset", "tool call", "judge")}
    env = tw.make("turnwise/Apps-v2")
    inner = env.unwrapped
    assert isinstance(inner, AppsEnv)
    for seed in range(n):
        options = {"level": seed % LEVELS + 1}
        found["reset"].append(timed(lambda: env.reset(seed=seed, options=options))[0])  # noqa: B023 - called at once
        over = False
        while not over:
            action = inner.oracle()
            took, (_, _, terminated, truncated, _) = timed(lambda: env.step(action))  # noqa: B023 - called at once
            over = terminated or truncated
            if not over:
                found["tool call"].append(took)
        found["judge"].append(timed(inner.judge)[0])
    return found


def forks(n: int) -> list[float]:
    """Milliseconds of a fork at every turn of ``n`` oracle episodes; not beside the calls, whose caches it empties."""
    found = []
    env = tw.make("turnwise/Apps-v2")
    for seed in range(n):
        env.reset(seed=seed, options={"level": seed % LEVELS + 1})
        over = False
        while not over:
            found.append(timed(env.unwrapped.fork)[0])
            _, _, terminated, truncated, _ = env.step(env.unwrapped.oracle())
            over = terminated or truncated
    return found


def live(n: int) -> float:
    """MiB that each of ``n`` live environments adds to this process."""
    before = psutil.Process().memory_info().rss
    kept = []
    for seed in range(n):
        env = tw.make("turnwise/Apps-v2")
        env.reset(seed=seed, options={"level": seed % LEVELS + 1})
        kept.append(env)
    return (psutil.Process().memory_info().rss - before) / n / 2**20


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--n", type=int, default=500, help="episodes")
    words.add_argument("--live", type=int, default=1000, help="live worlds")
    words.add_argument("--json", type=Path, help="file to write the figures to")
    said = words.parse_args()
    worlds = made()
    found = {"making a world": worlds, **episodes(said.n), "fork": forks(said.n)}
    size = live(said.live)
    table = Table("what", "median ms", "90 % ms", "hoped for", "n")
    figures: dict[str, Any] = {"mib_per_live_world": size, "image_kib": len(base_world(Split.TRAIN, 0).image) / 1024}
    for name, values in found.items():
        median, most = statistics.median(values), statistics.quantiles(values, n=10)[-1]
        figures[name] = {"median_ms": median, "p90_ms": most, "n": len(values)}
        hoped = f"≤ {TARGETS[name]:g}" if name in TARGETS else ""
        table.add_row(name, f"{median:.3f}", f"{most:.3f}", hoped, str(len(values)))
    console = Console()
    console.print(table)
    console.print(
        f"{said.live} live worlds: {size:.2f} MiB each, {size * said.live:.0f} MiB in all; "
        f"one image is {figures['image_kib']:.0f} KiB"
    )
    if said.json:
        said.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
