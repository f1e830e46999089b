"""Measure the viewer on large stores: opening, paging, filtering and searching, over HTTP as a browser does.

    python benchmarks/view.py                           # 10,000 × 100 turns, and 100,000 × 4 turns
    python benchmarks/view.py --episodes 1000 --many 10000 --folder /tmp/view

The stores are those that a run writes: 32 episodes to a part. Writing them takes minutes; with --folder they are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

import turnwise as tw
from turnwise.rollouts.columns import to_table
from turnwise.rollouts.store import EpisodeStore
from turnwise.service.server import LoopServer
from turnwise.tasks.score import Score
from turnwise.tasks.spec import Split, TaskSpec
from turnwise.view.app import build_app
from turnwise.view.runs import Runs

TOKEN = "benchmark-of-the-viewer"
PER_PART = 32
WORDS = [f"word{n}" for n in range(2000)]


def episode(number: int, turns: int) -> tw.Episode:
    """Make an episode whose texts, tokens and ids differ from others'."""

    def turn(at: int) -> tw.Turn:
        chance = random.Random(number * 1000 + at)
        word = f"door{(number * 31 + at * 7) % 997}"
        seen = tw.Message(
            "user", (tw.TextPart(f"You see {word} and a long corridor. " + " ".join(chance.choices(WORDS, k=30))),)
        )
        ids = tuple((number + at * k) % 5000 for k in range(16))
        logprobs = tuple(-((number + k) % 13) / 7 for k in range(16))
        ends = at == turns - 1
        return tw.Turn(
            tw.Observation((seen,)), tw.Action(f"open {word}"), float(ends and number % 3 > 0), terminated=ends,
            prompt_ids=ids, action_ids=ids, logprobs=logprobs, versions=(number // 100,) * 16,
        )  # fmt: skip

    return tw.Episode(
        f"episode-{number:06d}",
        "turnwise/Maze-v0",
        TaskSpec("maze", f"template-{number % 5}", 1 + number % 5, number, Split.TRAIN),
        f"group-{number // 8}",
        tuple(turn(at) for at in range(turns)),
        tw.Outcome.COMPLETED,
        score=Score(number % 3 > 0, {"reached": number % 3 > 0}),
        fingerprints={"step": str(number // 64)},
    )


def write(folder: Path, episodes: int, turns: int) -> Path:
    """Write a store, unless it is there already.

    Converting an episode is the slow half, so only some are; each part then gets ids and numbers of its own.
    """
    path = folder / f"store-{episodes}x{turns}" / "episodes"
    if path.is_dir():
        return path.parent
    EpisodeStore(path, run={"env": "turnwise/Maze-v0", "policy": "benchmark"}).close()
    patterns = [
        pa.concat_tables([to_table(episode(p * PER_PART + n, turns)) for n in range(PER_PART)]) for p in range(8)
    ]
    for part, start in enumerate(range(0, episodes, PER_PART)):
        table = patterns[part % 8].slice(0, min(PER_PART, episodes - start)).combine_chunks()
        ids = [f"episode-{start + n:06d}" for n in range(len(table))]
        groups = [f"group-{(start + n) // 8}" for n in range(len(table))]
        table = table.set_column(0, table.schema.field(0), pa.array(ids)).set_column(
            1, table.schema.field(1), pa.array(groups)
        )
        pq.write_table(table, path / f"part-{part:06d}.parquet", compression="zstd")
    return path.parent


def timed(client: httpx.Client, what: str, path: str, given: dict[str, Any], repeats: int = 1) -> Iterator[str]:
    """Yield a line with the median and maximum of several requests, each with another value where one is a list."""
    seconds = []
    for at in range(repeats):
        now = {name: value[at % len(value)] if isinstance(value, list) else value for name, value in given.items()}
        began = time.perf_counter()
        answer = client.get(path, params=now)
        seconds.append(time.perf_counter() - began)
        assert answer.status_code == 200, answer.text
    total = answer.json().get("total", "")
    yield f"{what:<42} median {1000 * statistics.median(seconds):7.0f} ms  max {1000 * max(seconds):7.0f} ms  {total}"


def measure(url: str, run: str) -> Iterator[str]:
    """Yield lines of measurements of one store."""
    with httpx.Client(base_url=url, timeout=600, cookies=httpx.get(f"{url}/?token={TOKEN}").cookies) as client:
        path, store = f"/api/runs/{run}/episodes", {"store": "episodes"}
        began = time.perf_counter()
        answer = client.get(path, params=store).json()
        first = f"{time.perf_counter() - began:.2f} s, {answer['episodes']} episodes"
        yield f"{'open (first page, nothing read before)':<42} {first}"
        while answer["unread"]:
            answer = client.get(path, params=store).json()
        yield f"{'all files read':<42} {time.perf_counter() - began:.1f} s, {answer['episodes']} episodes"
        yield from timed(client, "page", path, store | {"offset": [50, 500, 5000, 9000]}, 8)
        yield from timed(client, "sort by reward", path, store | {"sort": ["-total_reward", "turns"]}, 4)
        levels = store | {"level": [["1"], ["2", "3"]], "success": ["true", "false"], "total_reward_min": "0"}
        yield from timed(client, "filter level, success and reward", path, levels, 8)
        yield from timed(client, "filter by id", path, store | {"id": ["0042", "00999"]}, 4)
        for what, text in (("first", "open DOOR42"), ("second", "long corridor"), ("third", "door99")):
            began, left, requests = time.perf_counter(), 1, 0
            while left:
                answer = client.get(path, params=store | {"text": text}).json()
                left, requests = answer["unsearched"], requests + 1
            spent = f"{time.perf_counter() - began:.2f} s in {requests} requests, {answer['total']} found"
            yield f"{f'search all texts, the {what} time':<42} {spent}"
        yield from timed(client, "search for a tool", path, store | {"tool": ["search", "click"]}, 2)
        one = f"/api/runs/{run}/episode"
        ids = [f"episode-{n:06d}" for n in (0, 77, 321, 999)]
        yield from timed(client, "open one episode", one, store | {"episode": ids}, 4)
        yield from timed(
            client, "group of eight", f"/api/runs/{run}/group", store | {"group_id": ["group-3", "group-99"]}, 2
        )


async def main(folder: Path, sizes: list[tuple[int, int]]) -> None:
    """Write the stores, serve them, and print what was measured."""
    for episodes, turns in sizes:
        path = await asyncio.to_thread(write, folder, episodes, turns)
        size = sum(file.stat().st_size for file in path.rglob("*.parquet"))
        parts = len(list(path.rglob("*.parquet")))
        print(
            f"{episodes:,} episodes x {turns} turns, {parts:,} parts, {size / 2**20:,.0f} MiB, {os.cpu_count()} cores"
        )
        runs = Runs([path])
        server = await LoopServer.open(build_app(runs, TOKEN), host="127.0.0.1", port=0)
        run = runs.list()[0].id
        print(*await asyncio.to_thread(list, measure(f"http://127.0.0.1:{server.port}", run)), sep="\n")
        await server.close()
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure the viewer on large stores.")
    parser.add_argument("--episodes", type=int, default=10_000, help="Episodes of 100 turns.")
    parser.add_argument("--many", type=int, default=100_000, help="Episodes of 4 turns.")
    parser.add_argument("--folder", type=Path, help="Folder that keeps the stores (default: a temporary one).")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(main(words.folder or Path(scratch), [(words.episodes, 100), (words.many, 4)]))
