"""Measure the viewer on large stores: opening, paging, filtering and searching, over HTTP as a browser does.

    python benchmarks/view.py
    python benchmarks/view.py --episodes 1000 --many 10000 --folder /tmp/view

By default the stores have 10,000 episodes of 100 turns, and 100,000 of 4. With --episodes 0 --many 0, only one episode
of 100 MB and the cost of watching a run are measured.

The stores are those that a run writes: 32 episodes to a part. Writing them takes minutes; with --folder they are kept.
Seconds are of the clock; on a busy machine, read the seconds of CPU beside them. The cost of watching is the CPU time
of a viewer in a process of its own, with one page open on a run that finishes a step every second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from fastapi.testclient import TestClient

import turnwise as tw
from turnwise.rollouts.columns import to_table
from turnwise.rollouts.store import EpisodeStore
from turnwise.service.server import LoopServer
from turnwise.tasks.score import Score
from turnwise.tasks.spec import Split, TaskSpec
from turnwise.view.app import build_app
from turnwise.view.runs import Runs
from turnwise.view.text_search.background_index import BackgroundIndexer

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
        used, began = _cpu_of_children(), time.perf_counter()
        while client.get(f"/api/runs/{run}/indexing", params=store).json()["indexed"] is not None:
            time.sleep(1)
        spent = f"{time.perf_counter() - began:.1f} s, {_cpu_of_children() - used:.1f} s of CPU in its process"
        yield f"{'texts indexed in the background':<42} {spent}"
        for what, text in (("first", "open DOOR42"), ("second", "long corridor"), ("third", "door99")):
            began, cpu, left, requests = time.perf_counter(), time.process_time(), 1, 0
            while left:
                answer = client.get(path, params=store | {"text": text}).json()
                left, requests = answer["unsearched"], requests + 1
            spent = f"{time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of CPU"
            spent = f"{spent}, in {requests} requests, {answer['total']} found"
            yield f"{f'search all texts, the {what} time':<42} {spent}"
        yield from timed(client, "search for a tool", path, store | {"tool": ["search", "click"]}, 2)
        one = f"/api/runs/{run}/episode"
        ids = [f"episode-{n:06d}" for n in (0, 77, 321, 999)]
        yield from timed(client, "open one episode", one, store | {"episode": ids}, 4)
        yield from timed(
            client, "group of eight", f"/api/runs/{run}/group", store | {"group_id": ["group-3", "group-99"]}, 2
        )


def large(folder: Path, megabytes: int) -> Iterator[str]:
    """Yield what it takes to open an episode with so many megabytes of text, one to a turn."""
    store = folder / "large" / "episodes"
    text = "".join(random.Random(0).choices("abcdefgh \n", k=1_000_000))
    whole = episode(0, megabytes)
    seen = tw.Observation((tw.Message("user", (tw.TextPart(text),)),))
    with EpisodeStore(store, overwrite=True) as opened:
        opened.append(replace(whole, turns=tuple(replace(turn, observation=seen) for turn in whole.turns)))
    client = TestClient(build_app(Runs([folder / "large"]), TOKEN), base_url="http://127.0.0.1")
    client.get(f"/?token={TOKEN}")
    run = client.get("/api/runs").json()[0]["id"]
    where = {"store": "episodes", "episode": whole.episode_id}
    for what, path, given in (
        ("table", "episodes", {"store": "episodes"}),
        ("episode, the first time", "episode", where),
        ("episode, again", "episode", where),
        ("search its texts", "episodes", {"store": "episodes", "text": "door"}),
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = client.get(f"/api/runs/{run}/{path}", params=given)
        assert answer.status_code == 200, answer.text
        spent = f"{time.perf_counter() - wall:.2f} s, {time.process_time() - cpu:.2f} s of CPU"
        yield f"{f'{megabytes} MB in one episode: {what}':<52} {spent}, {len(answer.content) / 2**20:.1f} MiB sent"


def watched(folder: Path, seconds: float) -> Iterator[str]:
    """Yield the CPU time of a viewer that shows a run in which a step ends every second."""
    run = folder / "watched"
    run.mkdir(parents=True, exist_ok=True)
    (run / "config.json").write_text('{"algorithm": "loop", "config": {"steps": 100000}}')
    lines = (run / "metrics.jsonl").open("w", buffering=1)
    command = [sys.executable, "-m", "turnwise", "view", str(run), "--port", "0"]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert viewer.stdout is not None
    address = httpx.URL(viewer.stdout.readline().strip())
    url, received = f"http://127.0.0.1:{address.port}", 0

    def follow() -> None:
        nonlocal received
        with httpx.Client(base_url=url, timeout=60, cookies=httpx.get(address).cookies) as client:
            id = client.get("/api/runs").json()[0]["id"]
            with suppress(httpx.HTTPError), client.stream("GET", f"/api/runs/{id}/live") as answer:  # until it ends
                for line in answer.iter_lines():
                    received += line.startswith("event:")

    threading.Thread(target=follow, daemon=True).start()
    time.sleep(3)
    used, began, step = _cpu(viewer.pid), time.perf_counter(), 0
    with EpisodeStore(run / "training_episodes", overwrite=True) as kept:
        while time.perf_counter() - began < seconds:
            step += 1
            kept.append(episode(step, 20))
            kept.flush()
            numbers = ", ".join(f'"number/{n}": {step / (n + 1)}' for n in range(60))
            lines.write(f'{{"step": {step}, {numbers}}}\n')
            time.sleep(1)
    passed, spent = time.perf_counter() - began, _cpu(viewer.pid) - used
    viewer.terminate()
    viewer.wait(60)
    share = 100 * spent / passed / (os.cpu_count() or 1)
    during = f"{passed:.0f} s ({step} steps, {received} events)"
    yield f"watching a run: {spent:.2f} s of CPU in {during}: {share:.2f} % of all cores"


def _cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_of_children() -> float:
    """Return the seconds of CPU of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line, flush=True)


async def main(folder: Path, sizes: list[tuple[int, int]], watch: float, *, ahead: bool) -> None:
    """Write the stores, serve them, and print what was measured."""
    for line in (*large(folder, 100), *watched(folder, watch)) if watch else ():
        print(line, flush=True)
    for episodes, turns in (size for size in sizes if size[0]):
        path = await asyncio.to_thread(write, folder, episodes, turns)
        size = sum(file.stat().st_size for file in path.rglob("*.parquet"))
        parts = len(list(path.rglob("*.parquet")))
        print(
            f"{episodes:,} episodes x {turns} turns, {parts:,} parts, {size / 2**20:,.0f} MiB, {os.cpu_count()} cores"
        )
        runs = Runs([path])
        app = build_app(runs, TOKEN, indexer=BackgroundIndexer() if ahead else None)
        server = await LoopServer.open(app, host="127.0.0.1", port=0)
        run = runs.list()[0].id
        await asyncio.to_thread(_print, measure(f"http://127.0.0.1:{server.port}", run))
        await server.close()
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure the viewer on large stores.")
    parser.add_argument("--episodes", type=int, default=10_000, help="Episodes of 100 turns.")
    parser.add_argument("--many", type=int, default=100_000, help="Episodes of 4 turns.")
    parser.add_argument("--folder", type=Path, help="Folder that keeps the stores (default: a temporary one).")
    parser.add_argument("--watch", type=float, default=60, help="Seconds to watch a run; 0 to measure stores only.")
    parser.add_argument("--no-index", action="store_true", help="Leave the index of texts to the first search.")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sizes = [(words.episodes, 100), (words.many, 4)]
        asyncio.run(main(words.folder or Path(scratch), sizes, words.watch, ahead=not words.no_index))
